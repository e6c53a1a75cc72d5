"""What `codex` prints."""

from __future__ import annotations

from tertulia.executors.command.codex_jsonl import CodexJsonl
from tests.executors.recorded import names, recorded
from tests.fuzz.agent_output import check

SEEDS = [bytes([2, 9, 200]) + recorded(name) for name in names("codex")]
WORDS = [
    *(b"item.started", b"item.updated", b"item.completed", b"turn.completed", b"turn.failed", b"command_execution"),
    *(
        b"file_change",
        b"mcp_tool_call",
        b"web_search",
        b"todo_list",
        b"reasoning",
        b"agent_message",
        b"error",
        b"usage",
    ),
    *(b"null", b"[]", b"{}", b"-1", b"1e400", b"18446744073709551616", b"\\ud800", b"NaN"),
]


def fuzz(data: bytes) -> None:
    """See `agent_output`."""
    check(lambda limit: CodexJsonl(max_line_bytes=limit), data)
