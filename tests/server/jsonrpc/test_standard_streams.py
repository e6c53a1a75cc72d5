"""Descriptors of every kind, read and written."""

from __future__ import annotations

import asyncio
import os
import pty
import socket
import struct
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from tertulia.errors import TertuliaError
from tertulia.protocol.line_framing import LineSplitter
from tertulia.server.jsonrpc import stdio
from tertulia.server.jsonrpc.output_sink import FileSink, PipeSink, open_sink
from tertulia.server.jsonrpc.stdio import (
    read_chunks,
    receive_lines,
    wait_until_abandoned,
    wait_until_hung_up,
)
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, loop_steps
from tests.server.client import DEADLINE_S, ticks

Ends = tuple[int, int]
"""Read here, write there."""


def a_pipe() -> Ends:
    return os.pipe()


def a_socket() -> Ends:
    one, two = socket.socketpair()
    return one.detach(), two.detach()


ENDS = pytest.mark.parametrize("make", [a_pipe, a_socket])


async def read_all(source: int) -> bytes:
    async with asyncio.timeout(DEADLINE_S), aclosing(read_chunks(source)) as incoming:
        return b"".join([chunk async for chunk in incoming])


@ENDS
async def test_what_is_written_is_read_until_the_end(make: Callable[[], Ends]) -> None:
    source, target = make()
    os.write(target, b"abc")
    os.close(target)
    assert await read_all(source) == b"abc"
    os.fstat(source)  # it is still open
    os.close(source)


async def test_files_and_devices_are_read_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 200_000)
    for name, expected in ((str(path), b"x" * 200_000), (os.devnull, b"")):
        source = os.open(name, os.O_RDONLY)
        assert await read_all(source) == expected
        os.close(source)


async def test_a_terminal_is_read_until_it_is_hung_up() -> None:
    controller, terminal = pty.openpty()
    os.write(controller, b"abc\n")
    async with asyncio.timeout(DEADLINE_S), aclosing(read_chunks(terminal)) as incoming:
        assert await anext(incoming) == b"abc\n"
        os.close(controller)
        assert [chunk async for chunk in incoming] == []
    os.close(terminal)


async def test_a_connection_that_is_reset_ends_like_one_that_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as there:
        here, _ = listener.accept()
        with here:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            assert await read_all(here.fileno()) == b""


@ENDS
async def test_messages_go_out_one_a_line(make: Callable[[], Ends]) -> None:
    source, target = make()
    sink = await open_sink(target, lambda: None)
    assert isinstance(sink, PipeSink)
    sink.send([])
    sink.send([b"a"])
    sink.send([b"b", b"c"])
    await sink.drain()
    await sink.close(DEADLINE_S)
    sink.send([b"too late"])
    await sink.close(DEADLINE_S)
    os.close(target)
    assert await read_all(source) == b"a\nb\nc\n"
    os.close(source)


@ENDS
async def test_a_slow_reader_is_waited_for_and_gets_everything(make: Callable[[], Ends]) -> None:
    source, target = make()
    sink = await open_sink(target, lambda: None)
    draining = asyncio.create_task(sink.drain())
    await ticks()
    assert draining.done()
    sink.send([b"x" * 4_000_000])
    draining = asyncio.create_task(sink.drain())
    await ticks()
    assert not draining.done()
    os.close(target)
    closing = asyncio.create_task(sink.close(DEADLINE_S))
    assert len(await read_all(source)) == 4_000_001
    await closing
    await draining
    os.close(source)


@ENDS
async def test_a_long_message_is_not_copied_while_it_waits_for_its_reader(make: Callable[[], Ends]) -> None:
    """L1: the transport copied all of it that it could not write at once."""
    source, target = make()
    sink = await open_sink(target, lambda: None)
    os.close(target)
    message = b"x" * 8_000_000
    tracemalloc.start(1)
    try:
        sink.send([b"short", message, b"last"])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    closing = asyncio.ensure_future(sink.close(DEADLINE_S))
    assert await read_all(source) == b"short\n" + message + b"\nlast\n"
    await closing
    os.close(source)


@ENDS
async def test_a_reader_that_left_is_told_of_and_nobody_waits_for_it(make: Callable[[], Ends]) -> None:
    """D12."""
    source, target = make()
    lost = asyncio.Event()
    sink = await open_sink(target, lost.set)
    sink.send([b"x" * 4_000_000])
    draining = asyncio.create_task(sink.drain())
    await ticks()
    assert not draining.done()
    os.close(source)
    async with asyncio.timeout(DEADLINE_S):
        await lost.wait()
        await draining
        for _ in range(10):
            sink.send([b"nobody"])
            await sink.drain()
        await sink.close(DEADLINE_S)
    os.close(target)


@ENDS
async def test_a_reader_that_never_reads_is_given_up_in_time(make: Callable[[], Ends]) -> None:
    """H4."""
    source, target = make()
    sink = await open_sink(target, lambda: None)
    sink.send([b"x" * 4_000_000])
    async with asyncio.timeout(DEADLINE_S):
        await sink.close(0.01)
    os.close(source)
    os.close(target)


async def test_a_file_gets_the_same_lines() -> None:
    with tempfile.TemporaryFile() as file:
        sink = await open_sink(file.fileno(), lambda: None)
        assert isinstance(sink, FileSink)
        sink.send([])
        sink.send([b"a", b"b" * 1_000_000])
        await sink.drain()
        await sink.close(0)
        file.seek(0)
        assert file.read() == b"a\n" + b"b" * 1_000_000 + b"\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
async def test_a_file_that_cannot_be_written_counts_as_a_reader_that_left() -> None:
    lost: list[bool] = []
    target = os.open("/dev/full", os.O_WRONLY)
    sink = await open_sink(target, lambda: lost.append(True))
    sink.send([b"a"])
    sink.send([b"b"])
    await sink.drain()
    await sink.close(0)
    assert lost == [True]
    os.close(target)


async def test_closing_without_any_patience_is_no_mistake() -> None:
    """HARDENING H7: the reader takes the last of it in the very step in which the time is over."""
    source, target = os.pipe()
    sink = await open_sink(target, lambda: None)
    sink.send([b"last words"])
    await sink.close(0)
    assert os.read(source, 100) == b"last words\n"
    os.close(source)
    os.close(target)


@ENDS
async def test_a_writer_that_is_gone_is_noticed_whatever_is_unread(make: Callable[[], Ends]) -> None:
    """L2."""
    source, target = make()
    os.write(target, b"unread")
    waiting = asyncio.create_task(wait_until_hung_up(source))
    await ticks()
    assert not waiting.done()
    os.close(target)
    async with asyncio.timeout(DEADLINE_S):
        await waiting
    assert os.read(source, 100) == b"unread"
    os.close(source)


async def test_a_file_has_no_writer_to_wait_for(tmp_path: Path) -> None:
    source = os.open(os.devnull, os.O_RDONLY)
    async with asyncio.timeout(DEADLINE_S):
        await wait_until_hung_up(source)
    os.close(source)


async def test_a_client_is_gone_when_it_writes_no_more_and_reads_nothing() -> None:
    """L2."""
    (source, feed), (drain, target) = os.pipe(), os.pipe()
    sink = await open_sink(target, lambda: None)
    gone = asyncio.create_task(wait_until_abandoned(source, sink, 0.1))
    sink.send([b"x" * 1_000_000])
    os.close(feed)
    async with asyncio.timeout(DEADLINE_S):
        await gone
    await sink.close(0)
    for fd in (source, drain, target):
        os.close(fd)


@pytest.mark.parametrize("how", ["it still writes", "it reads"])
async def test_a_client_that_does_one_of_both_is_not_gone(how: str) -> None:
    """L2: a shell's pipe closes the input at once and reads for as long as it takes."""
    (source, feed), (drain, target) = os.pipe(), os.pipe()
    sink = await open_sink(target, lambda: None)
    gone = asyncio.create_task(wait_until_abandoned(source, sink, 0.1))
    if how == "it still writes":
        sink.send([b"x" * 1_000_000])
    else:
        os.close(feed)
    await asyncio.wait((gone,), timeout=0.4)
    assert not gone.done()
    gone.cancel()
    await asyncio.wait((gone,))
    await sink.close(0)
    for fd in (source, drain, target) if how == "it reads" else (source, feed, drain, target):
        os.close(fd)


class Listener:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def receive(self, line: bytes) -> None:
        self.heard.append(line)

    async def refuse(self, error: TertuliaError) -> None:
        self.heard.append(error.code)


async def heard(value: bytes) -> list[Any]:
    source, feed = os.pipe()
    os.write(feed, value)
    os.close(feed)
    listener = Listener()
    async with asyncio.timeout(HANG_S):
        await receive_lines(source, listener)
    os.close(source)
    return listener.heard


async def test_lines_are_handed_on_in_order_and_the_last_one_needs_no_end() -> None:
    """Issue 10 (2), HARDENING D11."""
    assert await heard(b"one\ntwo\r\n\nthree") == [b"one", b"two", b"three"]


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING D7."""
    monkeypatch.setattr(stdio, "LineSplitter", lambda: LineSplitter(10))
    assert await heard(b"x" * 50 + b"\nnext\n") == ["invalid_request", b"next"]


async def test_lines_that_are_nothing_hold_the_loop_never_for_long() -> None:
    """L1: each was refused at once, and 130,000 of them in one step of 337 ms."""

    class Refusing:
        heard = 0

        async def receive(self, line: bytes | bytearray) -> None:
            self.heard += 1
            # As long as a refusal takes.
            until = thread_time() + 2e-5
            while thread_time() < until:
                pass

        async def refuse(self, error: TertuliaError) -> None:
            raise AssertionError(error)

    client, data = Refusing(), b"x\n" * 20_000
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        async with loop_steps() as steps:
            await receive_lines(file.fileno(), client)
    assert client.heard == 20_000
    assert steps.longest_s < MOST_S
