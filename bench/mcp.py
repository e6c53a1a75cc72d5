"""One process for a thousand conversations: what a view costs, what a call through the pool costs, what is left over.

Calls are compared with the SDK's own `Client.call_tool` to the same kind of server in the same run, in turns; the best
of several rounds. CPU is that of this process: the server's is its own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import tertulia
from tertulia.events.journal import NoJournal
from tertulia.mcp.server_connection import Caller
from tertulia.testing import ScriptedModel

Row = tuple[str, float, str, str]
ROUNDS = 7
CALLS = 200
CONVERSATIONS = 1_000

_SERVER = """
import json, os, sys
tools = [{"name": f"echo{n}", "description": "Say it again. " * 8, "inputSchema": {"type": "object", "properties":
         {"text": {"type": "string"}}}} for n in range(20)]
def answer(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        answer(m["id"], {"protocolVersion": m["params"]["protocolVersion"], "serverInfo": {"name": "b", "version": "1"},
                         "capabilities": {"tools": {}}})
    elif m.get("method") == "tools/list": answer(m["id"], {"tools": tools})
    elif m.get("method") == "tools/call":
        answer(m["id"], {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]})
    elif "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
"""


def run() -> list[Row]:
    """All rows: name, value, unit, target."""
    return asyncio.run(_all())


def _table(name: str) -> dict[str, Any]:
    # With its name: what is started in exactly the same way is the same process, whatever it is called.
    return {"command": sys.executable, "args": ["-I", "-S", "-c", _SERVER, name], "approval": "approve"}


async def _all() -> list[Row]:
    before = _children()
    settings = tertulia.Settings(
        model=ScriptedModel([]), mcp_servers={name: _table(name) for name in ("alpha", "beta", "gamma")}
    )
    async with tertulia.Session.start(settings, journal=NoJournal()) as session:
        rows = await _opening(session)
        servers = [pid for pid in _children() - before if "tools/list" in _command(pid)]
        rows.append((f"server processes for {CONVERSATIONS:,} conversations", len(servers), "", "<= 3"))
        rows += await _calls(session)
        rows += await _refreshes(session)
    rows.append(("processes left after close", len(_children() - before), "", "<= 0"))
    return rows


async def _opening(session: tertulia.Session) -> list[Row]:
    async def opened(count: int, **fields: Any) -> float:
        gc.collect()
        begun = time.process_time()
        made = [await session.open(**fields) for _ in range(count)]
        spent = time.process_time() - begun
        for conversation in made[: 0 if count == CONVERSATIONS else count]:
            await conversation.close()
        return spent / count * 1000

    narrow = {"mcp_tool_allowlist": ["alpha__echo1", "beta__*"]}
    plain = min([await opened(100) for _ in range(ROUNDS)])
    viewed = min([await opened(100, **narrow) for _ in range(ROUNDS)])
    await opened(CONVERSATIONS, **narrow)
    return [("open a conversation, every tool", plain, "ms CPU", "<= 0.2"),
            ("open a conversation with a view", viewed, "ms CPU", "<= 0.2")]  # fmt: skip


async def _calls(session: tertulia.Session) -> list[Row]:
    from mcp import Client, StdioServerParameters

    servers = session.parts.servers
    caller = Caller(session.root.id, _nobody, _nobody)
    spec = next(spec for spec in servers.list_tools() if spec.name == "alpha__echo1")
    table = _table("alone")
    pooled: list[float] = []
    direct: list[float] = []
    async with Client(StdioServerParameters(command=table["command"], args=table["args"])) as client:

        async def ours() -> None:
            await servers.call(spec, {"text": "hi"}, caller, timeout_s=30, on_progress=lambda *_: None)

        async def theirs() -> None:
            await client.call_tool("echo1", {"text": "hi"})

        for _ in range(ROUNDS):
            pooled.append(await _cpu(ours))
            direct.append(await _cpu(theirs))
    return [
        ("a call with the SDK's own client", min(direct), "ms CPU", ""),
        ("a call through the pool", min(pooled), "ms CPU", ""),
        ("the pool to the SDK", min(pooled) / min(direct), "x", "<= 1.3"),
    ]


async def _cpu(once: Any) -> float:
    gc.collect()
    begun = time.process_time()
    for _ in range(CALLS):
        await once()
    return (time.process_time() - begun) / CALLS * 1000


async def _refreshes(session: tertulia.Session) -> list[Row]:
    def counts() -> tuple[int, int, int]:
        return len(_children()), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    await session.parts.servers.refresh()
    before = counts()
    for _ in range(1_000):
        await session.parts.servers.refresh()
        await session.root.set_context(refresh_mcp_view=True)
    grown = [now - then for now, then in zip(counts(), before, strict=True)]
    names = ("processes", "threads", "file descriptors")
    return [(f"{name} more after 1,000 refreshes", more, "", "<= 0") for name, more in zip(names, grown, strict=True)]


async def _nobody(request: object) -> Any:
    raise AssertionError(request)


def _children() -> set[int]:
    """All descendants of this process."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, fresh = set(), {os.getpid()}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh}
        found |= fresh
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
