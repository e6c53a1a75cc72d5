"""MCP servers that many people use, as they are published: start, list, two calls of those that work without a network,
close, and nothing is left behind. Those of `tests/mcp/test_real_servers.py` are four more.

Keys are words: no server is asked for anything that it would have to send them for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tertulia.mcp.config.definition import ServerDefinition, Stdio
from tertulia.mcp.config.launch import resolve_launch
from tests.deadlines import HANG_S
from tests.mcp.connected import call, reaching, until
from tests.mcp.real import ROOT, node

HOME = ROOT / ".venv/published-servers"
MARK = "TERTULIA_TEST_MARK"
Calls = tuple[tuple[str, Mapping[str, Any], str], ...]


class Published(NamedTuple):
    """One of them."""

    program: str
    arguments: tuple[str, ...] = ()
    key: str = ""
    """The variable that it wants before it starts."""
    tools: int = 1
    """How many it has at least."""
    calls: Calls = ()
    """Tool, arguments, and what the answer contains."""
    libraries: str = ""
    """For a program of Python: the folder of its own libraries."""


ENTITY = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
THOUGHT = {"thought": "look first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
SERVERS = {
    "memory": Published(
        "mcp-server-memory",
        tools=9,
        calls=(("create_entities", {"entities": [ENTITY]}, "Ada"), ("read_graph", {}, "Ada")),
    ),
    "sequential-thinking": Published(
        "mcp-server-sequential-thinking",
        calls=(
            ("sequentialthinking", THOUGHT, "thoughtNumber"),
            ("sequentialthinking", THOUGHT, "thoughtHistoryLength"),
        ),
    ),
    "context7": Published("context7-mcp", tools=2),
    "playwright": Published("playwright-mcp", ("--headless",), tools=20),
    "chrome-devtools": Published("chrome-devtools-mcp", ("--headless",), tools=20),
    "notion": Published("notion-mcp-server", key="NOTION_TOKEN", tools=20),
    "tavily": Published("tavily-mcp", key="TAVILY_API_KEY", tools=4),
    "brave-search": Published("mcp-server-brave-search", key="BRAVE_API_KEY", tools=2),
    "github": Published("mcp-server-github", key="GITHUB_PERSONAL_ACCESS_TOKEN", tools=20),
    "exa": Published("exa-mcp-server", key="EXA_API_KEY", tools=2),
    "fetch": Published("mcp-server-fetch", ("--ignore-robots-txt", "--allow-private-ips"), libraries="new"),
    "sqlite": Published(
        "mcp-server-sqlite",
        ("--db-path", "numbers.db"),
        tools=6,
        calls=(
            ("create_table", {"query": "CREATE TABLE numbers (value INTEGER)"}, "success"),
            ("list_tables", {}, "numbers"),
        ),
        libraries="old",
    ),
    "calculator": Published(
        "mcp-server-calculator",
        calls=(("calculate", {"expression": "6 * 7"}, "42"), ("calculate", {"expression": "2 ** 10"}, "1024")),
        libraries="old",
    ),
}


def command(server: Published) -> tuple[str, ...]:
    """How it is started; skips the test where it is not installed."""
    folder = HOME / server.libraries / "bin" if server.libraries else HOME / "node_modules" / ".bin"
    program = folder / server.program
    if not program.exists():
        pytest.skip(f"{server.program} is not installed: make published-servers")
    runner = sys.executable if server.libraries else node()
    return (runner, str(program.resolve()), *server.arguments)


def definition(name: str, server: Published, folder: Path) -> ServerDefinition:
    runner, *arguments = command(server)
    libraries = {"PYTHONPATH": str(HOME / server.libraries)} if server.libraries else {}
    variables = {MARK: f"{os.getpid()}-{name}", "MEMORY_FILE_PATH": str(folder / "memory.json"), **libraries}
    key = {server.key: "a-word-and-no-key"} if server.key else {}
    transport = Stdio(command=runner, args=tuple(arguments), env={**variables, **key}, cwd=str(folder))
    return ServerDefinition(name=name, transport=transport, startup_timeout_s=HANG_S)


def left_over(name: str) -> list[int]:
    """The processes of a server that are still there."""
    mark, found = f"{MARK}={os.getpid()}-{name}\0".encode(), list[int]()
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or belongs to another user
            if mark in place.read_bytes():
                found.append(int(place.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS)
async def test_a_published_server_works_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    server = SERVERS[name]
    defined = definition(name, server, tmp_path)
    async with reaching() as reach:
        link = await reach((defined, resolve_launch(defined, os.environ)), within_s=HANG_S)
        listing = await link.list_tools()
        assert len(listing.tools) >= server.tools
        assert not listing.left_out
        for tool, arguments, answer in server.calls:
            result = await call(link, tool, **arguments)
            assert not result.is_error, result.text
            assert answer in result.text
        if name == "fetch":
            await read_a_page(link)
        assert left_over(name)
    await until(lambda: not left_over(name))


async def read_a_page(link: Any) -> None:
    """It fetches from this machine, twice."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        page = b"<html><body><article><p>A page about otters.</p></article></body></html>"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(page) + page)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        for path in ("", "again"):
            # Raw: to make text of it, its library would fetch programs with npm.
            result = await call(link, "fetch", url=f"http://127.0.0.1:{port}/{path}", raw=True)
            assert not result.is_error, result.text
            assert "otters" in result.text
