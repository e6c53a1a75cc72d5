"""What is fuzzed: a module beside this one for each name, and which of our modules it is about.

Each has `fuzz(data)`, which raises only what nobody expects; `SEEDS`, where the fuzzer begins; and `WORDS`, which it
would not find by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

WATCHED: dict[str, tuple[str, ...]] = {
    "claude_stream": ("tertulia.executors",),
    "codex_jsonl": ("tertulia.executors",),
    "command": (
        "tertulia.policy.commands.command_analysis",
        "tertulia.policy.commands.command_analysis",
        "tertulia.policy.commands.safe_programs",
    ),
    "connection": ("tertulia.server.", "tertulia.session.inputs", "tertulia.protocol.inputs"),
    "http_response": ("tertulia.models.http.http_response",),
    "json_rpc": (
        "tertulia.server.jsonrpc.strict_json",
        "tertulia.protocol.line_framing",
        "tertulia.server.jsonrpc.messages",
    ),
    "mcp_lines": ("tertulia.mcp.client.jsonrpc_lines",),
    "patch": ("tertulia.tools.patch.",),
    "project_instructions": ("tertulia.context.project_instructions", "tertulia.conversation.user_message"),
    "proxy_request": ("tertulia.sandbox.proxy.http_head", "tertulia.sandbox.proxy.tls_hello", "tertulia.policy.hosts"),
    "rollout_file": ("tertulia.rollout",),
    "rollout_rows": ("tertulia.rollout",),
    "sse": ("tertulia.models.http.sse",),
    "template": ("tertulia.context.templates",),
}
"""The modules whose branches steer the fuzzer, by how their names begin."""


def why_not() -> str | None:
    """Why there can be no fuzzing here, if so."""
    return None if find_spec("atheris") else "atheris has no wheel for this system and this Python; seeds only"


class Target(NamedTuple):
    """One of them, loaded."""

    fuzz: Callable[[bytes], None]
    seeds: list[bytes]
    words: list[bytes]


def load(name: str) -> Target:
    """The target of that name."""
    module = import_module(f"tests.fuzz.{name}")
    return Target(module.fuzz, module.SEEDS, module.WORDS)


def cuts(data: bytes) -> tuple[list[int], bytes]:
    """The first bytes as places to cut, and the rest as what is cut there."""
    if not data:
        return [], b""
    count = data[0] % 8
    rest = data[1 + count :]
    return sorted(part % (len(rest) + 1) for part in data[1 : 1 + count]), rest


def pieces(places: list[int], whole: bytes) -> list[bytes]:
    """The whole, cut there."""
    ends = [*places, len(whole)]
    return [whole[begin:end] for begin, end in zip([0, *places], ends, strict=True)]
