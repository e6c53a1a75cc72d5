"""What `claude` prints."""

from __future__ import annotations

from tertulia.executors.command.claude_stream import ClaudeStream
from tests.executors.recorded import names, recorded
from tests.fuzz.agent_output import check

SEEDS = [bytes([2, 9, 200]) + recorded(name) for name in names("claude")]
WORDS = [
    *(b"assistant", b"user", b"system", b"result", b"stream_event", b"tool_use", b"tool_result", b"server_tool_use"),
    *(b"web_search_tool_result", b"content_block_delta", b"message_start", b"TodoWrite", b"mcp__a__b", b"is_error"),
    *(b"null", b"[]", b"{}", b"-1", b"1e400", b"18446744073709551616", b"\\ud800", b"NaN"),
]


def fuzz(data: bytes) -> None:
    """See `agent_output`."""
    check(lambda limit: ClaudeStream(max_line_bytes=limit), data)
