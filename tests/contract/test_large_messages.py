"""What large messages leave behind in a server that goes on running: measured in the process itself."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.contract.wire import Place, serving_web
from tests.deadlines import HANG_S

SIZE = 12 * 1024 * 1024
MESSAGES: dict[str, Callable[[], bytes]] = {
    "one string": lambda: b'["' + b"x" * SIZE + b'"]',
    "characters of four bytes": lambda: b'["' + "😀".encode() * (SIZE // 4) + b'"]',
    "escapes": lambda: b'["' + rb"\"" * (SIZE // 2) + b'"]',
    "tiny objects": lambda: b"[" + b"{}," * (SIZE // 3) + b"{}]",
    "blanks": lambda: b"[" + b" " * SIZE + b"]",
}


def memory_kib(place: Place, name: str) -> int:
    status = Path(f"/proc/{place.process.pid}/status").read_text(encoding="ascii")
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
        before = memory_kib(place, "VmRSS")
        for make in [*MESSAGES.values()] * 2:
            await send(place, make(), sockets)
        await send(place, b"[]", sockets)
        peak, left = ((memory_kib(place, name) - before) * 1024 / SIZE for name in ("VmHWM", "VmRSS"))
        assert peak <= 4, f"at most {peak:.1f} times a message"
        assert left <= 1, f"{left:.1f} times a message is left"
