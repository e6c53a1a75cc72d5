"""What large messages cost a server in memory, and leave behind in it: measured in the process itself."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.contract.app_server import program, surroundings, write_script
from tests.contract.wire import Place, serving_web
from tests.deadlines import HANG_S, QuietTime
from tests.thorough import sample

SIZE = 12 * 1024 * 1024
MESSAGES: dict[str, Callable[[], bytes]] = {
    "one string": lambda: b'["' + b"x" * SIZE + b'"]',
    "characters of four bytes": lambda: b'["' + "😀".encode() * (SIZE // 4) + b'"]',
    "escapes": lambda: b'["' + rb"\"" * (SIZE // 2) + b'"]',
    "tiny objects": lambda: b"[" + b"{}," * (SIZE // 3) + b"{}]",
    "blanks": lambda: b"[" + b" " * SIZE + b"]",
}


def status_kib(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split(f"{name}:")[1].split()[0])


async def send(place: Place, message: bytes, open_sockets: AsyncExitStack) -> None:
    async with asyncio.timeout(HANG_S):
        client = await open_sockets.enter_async_context(place.socket())
        await client.call("initialize", observe=True)
        await client.socket.send(message, text=True)
        assert b"error" in await client.socket.recv(decode=False)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are not told anything")
async def test_ten_large_messages_in_a_row_take_no_more_memory_than_one(tmp_path: Path) -> None:
    """L1: at most four times a message, whatever came before it; afterwards nearly all is given back.

    Each comes from a client of its own, which stays connected.
    """
    async with serving_web(tmp_path, []) as place, AsyncExitStack() as sockets:
        # What is loaded with the first message of all is not the message's.
        await send(place, b"[]", sockets)
        before = status_kib(place.process.pid, "VmRSS")
        for make in [*MESSAGES.values()] * 2:
            await send(place, make(), sockets)
        await send(place, b"[]", sockets)
        pid = place.process.pid
        peak, left = ((status_kib(pid, name) - before) * 1024 / SIZE for name in ("VmHWM", "VmRSS"))
        assert peak <= 4, f"at most {peak:.1f} times a message"
        assert left <= 1, f"{left:.1f} times a message is left"


CLOSE_TIMEOUT_S = 1.0


def cpu_s(pid: int) -> float:
    """What a process has worked until now."""
    user, system = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def children_cpu_s() -> float:
    """What our children that have ended have worked, with theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.slow
async def test_a_stop_with_six_large_messages_in_flight_ends_in_time(tmp_path: Path) -> None:
    """L1: within the time to close and two seconds; it took 98 s."""
    flags = ("-c", f"close_timeout_s={CLOSE_TIMEOUT_S}")
    async with serving_web(tmp_path, [], *flags) as place, AsyncExitStack() as sockets, asyncio.timeout(HANG_S):
        for make in [MESSAGES["tiny objects"], MESSAGES["escapes"]] * 3:
            client = await sockets.enter_async_context(place.socket())
            await client.call("initialize", observe=True)
            # It returns when the server has taken all but the last of it.
            await client.socket.send(make(), text=True)
        earlier = children_cpu_s() + cpu_s(place.process.pid)
        place.process.send_signal(signal.SIGTERM)
        time_taken = QuietTime()
        assert await place.process.wait() == 0
        assert time_taken.seconds < CLOSE_TIMEOUT_S + 2
        # On a busy machine no second is a quiet one: what it has still worked is known there too.
        assert children_cpu_s() - earlier < CLOSE_TIMEOUT_S + 2


# ---- texts that are accepted: the server's own process, from its idle state to the end of the task

BODIES: dict[str, Callable[[], str]] = {"letters": lambda: "x" * SIZE, "emoji": lambda: "😀" * (SIZE // 4)}
Params = Callable[[str, str], dict[str, Any]]
"""The id that `open_one` gave and a text, as the parameters of a request."""


class Surface(msgspec.Struct, frozen=True):
    """A program that reads lines: how it is greeted, and which request brings a text."""

    words: tuple[str, ...]
    greeting: dict[str, Any]
    method: str
    params: Params
    open_one: tuple[str, str, str] = ("", "", "")
    """The method that makes a session or a thread, and where its id stands in the answer."""
    ended: bytes = b'"id":%d'
    """What stands in the last message of a turn."""


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def mcp_message(id: str, text: str) -> dict[str, Any]:
    return {"name": "conversation_message", "arguments": {"conversation_id": "root", "text": text}}


SURFACES = {
    "conversation/message": Surface(
        ("app-server",), {}, "conversation/message", lambda id, text: {"conversation_id": "root", "text": text}
    ),
    "conversation/open": Surface(
        ("app-server",), {}, "conversation/open", lambda id, text: {"user_instructions": text}
    ),
    "conversation/set_context": Surface(
        ("app-server",), {}, "conversation/set_context",
        lambda id, text: {"conversation_id": "root", "base_instructions": text},
    ),
    "ACP": Surface(
        ("acp",), {"protocolVersion": 1}, "session/prompt",
        lambda id, text: {"sessionId": id, "prompt": [{"type": "text", "text": text}]},
        ("session/new", "", "sessionId"),
    ),
    "Codex": Surface(
        ("app-server", "--codex"), {"clientInfo": {"name": "test", "version": "1"}}, "turn/start",
        lambda id, text: {"threadId": id, "input": [{"type": "text", "text": text}]},
        ("thread/start", "thread", "id"), b"turn/completed",
    ),
    "MCP": Surface(("mcp-server",), HELLO, "tools/call", mcp_message),
}  # fmt: skip


def encoded(id: int, method: str, params: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def begin(pid: int) -> int:
    """Forget how much memory it had at most; how much it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    return status_kib(pid, "VmRSS")


async def exchange(process: asyncio.subprocess.Process, line: bytes, ended: bytes) -> bytes:
    """Send a line, and read until a message has that near its beginning or end."""
    assert process.stdin
    assert process.stdout
    async with asyncio.timeout(HANG_S):
        process.stdin.write(line + b"\n")
        await process.stdin.drain()
        while ended not in (answer := await process.stdout.readline())[:300] + answer[-300:]:
            assert answer
    return answer


async def grown(surface: Surface, text: str, folder: Path) -> float:
    """How much the process has grown at most, in parts of the message."""
    process = await asyncio.create_subprocess_exec(
        program(), *surface.words, "-m", write_script(folder, ["Fine.", "Fine."]),
        cwd=folder, env=surroundings(folder / "home"), limit=1 << 28,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await exchange(process, encoded(0, "initialize", surface.greeting), b'"id":0')
        method, outer, name = surface.open_one
        id = ""
        if method:
            opening = encoded(1, method, {"cwd": str(folder), "mcpServers": []})
            result = msgspec.json.decode(await exchange(process, opening, b'"id":1'))["result"]
            id = (result[outer] if outer else result)[name]
        before = 0
        # What is loaded with the first message of all is not the message's.
        for number, message in ((2, "Hello."), (3, text)):
            before = begin(process.pid)
            ended = surface.ended % number if b"%" in surface.ended else surface.ended
            line = encoded(number, surface.method, surface.params(id, message))
            answer = await exchange(process, line, ended)
            assert b'"error":{' not in answer[:300], answer[:300]
        return (status_kib(process.pid, "VmHWM") - before) * 1024 / len(line)
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are not told anything")
@pytest.mark.parametrize(("name", "body"), sample([(name, body) for name in SURFACES for body in BODIES], 6))
async def test_a_long_text_takes_at_most_four_times_its_bytes(name: str, body: str, tmp_path: Path) -> None:
    """L1: what is there at the same time, and what the allocator keeps; it was up to 7.6 times."""
    times = await grown(SURFACES[name], BODIES[body](), tmp_path)
    assert times <= 4, f"{times:.1f} times"


async def post(place: Place, message: bytes, session: str = "") -> bytes:
    """The whole answer of `/mcp`, with its headers."""
    address = urlsplit(place.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    headers = (
        f"POST /mcp HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {place.token.strip()}\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(message)}\r\n"
    )
    own = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n" if session else ""
    async with asyncio.timeout(HANG_S):
        writer.write(f"{headers}{own}\r\n".encode() + message)
        await writer.drain()
        answer = await reader.read(-1)
    writer.close()
    return answer


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are not told anything")
@pytest.mark.parametrize("body", sample(list(BODIES), 2))
async def test_so_does_a_call_of_mcp_over_http(body: str, tmp_path: Path) -> None:
    """L1: the SDK would hold the body until the call ends, and decode it once more."""
    async with serving_web(tmp_path, ["Fine.", "Fine."]) as place:
        pid = place.process.pid
        greeted = await post(place, encoded(0, "initialize", HELLO))
        session = greeted.lower().split(b"mcp-session-id: ")[1].split()[0].decode()
        await post(place, b'{"jsonrpc":"2.0","method":"notifications/initialized"}', session)
        before, line = 0, b""
        for number, message in ((1, "Hello."), (2, BODIES[body]())):
            before, line = begin(pid), encoded(number, "tools/call", mcp_message("", message))
            answer = await post(place, line, session)
            assert b"Fine." in answer, answer[:500]
        times = (status_kib(pid, "VmHWM") - before) * 1024 / len(line)
    assert times <= 4, f"{times:.1f} times"
