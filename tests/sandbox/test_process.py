"""Driving a command without a task: draining, feeding, ending. The tier is a puppet."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.errors import ClosedError, SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox import process as process_module
from tertulia.sandbox.process import BoundedOutput, CommandProcess, CommandStreams
from tertulia.sandbox.runner import Confinement, Output, TerminalSize, TierName
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, Streams
from tests.deadlines import HANG_S
from tests.sandbox.confined import Place


class Puppet:
    """A tier whose commands do what the test does."""

    name: TierName = "none"
    not_covered = ()

    def __init__(self) -> None:
        self.kills = self.terminations = 0

    def find(self) -> str:
        return ""

    def spawn(self, command: object, streams: Streams, ended: OnProcessEnd) -> Puppet:
        self.stdin, self.stdout, self.stderr = map(os.dup, (streams.stdin, streams.stdout, streams.stderr))
        self.ended = ended
        return self

    def kill(self) -> None:
        self.kills += 1

    def terminate(self) -> None:
        self.terminations += 1

    def conclude(self, ending: ProcessEnd, output: Output) -> ProcessEnd:
        return ending

    def close(self) -> None:
        pass

    def end(self, ending: ProcessEnd) -> None:
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)
        self.ended(ending)


def begin(place: Place, **fields: object) -> tuple[CommandProcess, Puppet]:
    puppet = Puppet()
    return CommandProcess(place.command("x", **fields), puppet, SystemClock(), None), puppet


async def test_what_is_in_the_pipe_at_the_end_is_still_read(place: Place) -> None:
    process, puppet = begin(place)
    os.write(puppet.stdout, b"x" * 65_536)
    puppet.end(ProcessEnd(0))
    assert process.finished is not None
    assert process.finished.output.total == 65_536


async def test_output_that_somebody_else_still_holds_open_does_not_keep_the_end(place: Place) -> None:
    process, puppet = begin(place)
    held = os.dup(puppet.stdout)
    puppet.end(ProcessEnd(3))
    assert (await process.wait(1)) == process.finished
    os.close(held)


async def test_a_reader_that_is_slow_makes_the_writer_wait(place: Place) -> None:
    process, puppet = begin(place, keep_stdin=True)
    writing = asyncio.create_task(process.write(b"x" * 300_000))
    await asyncio.sleep(0)
    assert not writing.done()
    os.set_blocking(puppet.stdin, False)
    got = 0
    while got < 300_000:
        with contextlib.suppress(BlockingIOError):
            got += len(os.read(puppet.stdin, 65_536))
        await asyncio.sleep(0)
    await writing
    puppet.end(ProcessEnd(0))


@pytest.mark.parametrize("how", ["ends", "closes its input"])
async def test_who_writes_to_a_command_that_stops_reading_is_told(place: Place, how: str) -> None:
    process, puppet = begin(place, keep_stdin=True)
    writing = asyncio.create_task(process.write(b"x" * 300_000))
    await asyncio.sleep(0)
    if how == "ends":
        puppet.end(ProcessEnd(0))
    else:
        os.close(puppet.stdin)
        puppet.stdin = os.open(os.devnull, os.O_RDONLY)
    with pytest.raises(ClosedError):
        await asyncio.wait_for(writing, HANG_S)
    if process.finished is None:
        puppet.end(ProcessEnd(0))


async def test_killing_gives_up_on_what_the_kernel_holds(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """H3: bounded"""
    monkeypatch.setattr(process_module, "_KILL_DEADLINE_S", 0.01)
    process, puppet = begin(place)
    with pytest.raises(SandboxError, match="still there after"):
        await process.kill()
    assert puppet.kills == 1
    puppet.end(ProcessEnd(137))
    assert (await process.kill()).ended == "killed"
    assert puppet.kills == 1


@pytest.mark.parametrize(
    ("ending", "ended"),
    [
        (ProcessEnd(0), "exited"),
        (ProcessEnd(137), "exited"),
        (ProcessEnd(137, limit="processes"), "killed"),
        (ProcessEnd(1, limit="memory_bytes"), "exited"),
        (ProcessEnd(1, began=False, reason="why"), "not_started"),
    ],
)
async def test_how_an_end_is_called(place: Place, ending: ProcessEnd, ended: str) -> None:
    process, puppet = begin(place)
    puppet.end(ending)
    assert process.finished is not None
    assert process.finished.ended == ended
    assert process.finished.reason == ending.reason


async def test_a_tier_that_cannot_start_leaves_no_descriptor(place: Place) -> None:
    class Broken(Puppet):
        def spawn(self, command: object, streams: Streams, ended: OnProcessEnd) -> Puppet:
            raise SandboxError("no")

    before = len(os.listdir("/proc/self/fd"))
    for terminal in (None, TerminalSize()):
        with pytest.raises(SandboxError):
            CommandProcess(place.command("x", terminal=terminal, keep_stdin=True), Broken(), SystemClock(), None)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_stderr_apart_is_told_of_apart_and_is_no_output(place: Place) -> None:
    puppet, output, errors = Puppet(), bytearray(), bytearray()
    process = CommandProcess(place.command("x"), puppet, SystemClock(), output.extend, errors.extend)
    os.write(puppet.stdout, b"out")
    os.write(puppet.stderr, b"err")
    await place.until(lambda: output == b"out" and errors == b"err")
    os.write(puppet.stderr, b" last")
    puppet.end(ProcessEnd(0))
    assert errors == b"err last"
    assert process.finished is not None
    assert process.finished.output.head == b"out"


async def test_who_is_paused_reads_nothing_until_resumed(place: Place) -> None:
    puppet, output = Puppet(), bytearray()
    process = CommandProcess(place.command("x"), puppet, SystemClock(), output.extend)
    process.pause()
    process.pause()
    os.write(puppet.stdout, b"later")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.05)
    assert output == b""
    process.resume()
    process.resume()
    await place.until(lambda: output == b"later")
    puppet.end(ProcessEnd(0))


async def test_pausing_in_the_middle_of_reading_stops_after_that_piece(place: Place) -> None:
    puppet = Puppet()
    pieces: list[int] = []

    def hear(data: bytes) -> None:
        pieces.append(len(data))
        process.pause()

    process = CommandProcess(place.command("x"), puppet, SystemClock(), hear)
    fcntl.fcntl(puppet.stdout, fcntl.F_SETPIPE_SZ, 1 << 18)
    os.write(puppet.stdout, b"x" * (1 << 18))
    await place.until(lambda: pieces)
    assert pieces == [65_536]
    process.resume()
    await place.until(lambda: len(pieces) == 2)
    puppet.end(ProcessEnd(0))
    # What is left at the end is read whether or not it is paused.
    assert sum(pieces) == 1 << 18
    process.resume()
    process.pause()


async def test_it_is_asked_to_end_as_long_as_it_runs(place: Place) -> None:
    process, puppet = begin(place)
    process.terminate()
    assert puppet.terminations == 1
    puppet.end(ProcessEnd(0))
    process.terminate()
    assert puppet.terminations == 1


def test_pipes_are_separate_and_ours_never_block(place: Place) -> None:
    stdio = CommandStreams(place.command("true", keep_stdin=True))
    assert stdio.reader is not None
    assert stdio.writer is not None
    assert stdio.streams.stdout == stdio.streams.stderr
    assert not os.get_blocking(stdio.reader)
    assert os.get_blocking(stdio.streams.stdout)
    os.write(stdio.streams.stdout, b"x")
    assert os.read(stdio.reader, 10) == b"x"
    stdio.close_theirs()
    assert os.read(stdio.reader, 10) == b""
    stdio.close_ours()
    assert stdio.reader is None


def test_a_command_without_input_reads_the_end_of_file(place: Place) -> None:
    stdio = CommandStreams(place.command("true"))
    assert stdio.writer is None
    assert os.read(stdio.streams.stdin, 1) == b""
    stdio.close_theirs()
    stdio.close_ours()


def test_a_terminal_has_its_size(place: Place) -> None:
    stdio = CommandStreams(place.command("true", terminal=TerminalSize(30, 120)))
    assert os.isatty(stdio.streams.stdin)
    assert struct.unpack("HHHH", fcntl.ioctl(stdio.streams.stdin, termios.TIOCGWINSZ, bytes(8)))[:2] == (30, 120)
    assert stdio.reader == stdio.writer
    stdio.close_theirs()
    stdio.close_ours()


def test_our_own_streams_are_passed_on_and_not_closed(place: Place) -> None:
    unconfined = replace(place.command("true"), inherit_stdio=True, confinement=Confinement(mode="danger_full_access"))
    stdio = CommandStreams(unconfined)
    assert (stdio.streams.stdin, stdio.streams.stdout, stdio.streams.stderr) == (0, 1, 2)
    assert stdio.reader is None
    stdio.close_theirs()
    stdio.close_ours()
    os.fstat(1)


def test_errors_apart_have_a_pipe_of_their_own(place: Place) -> None:
    stdio = CommandStreams(place.command("true"), errors_apart=True)
    assert stdio.errors is not None
    assert stdio.reader is not None
    assert not os.get_blocking(stdio.errors)
    os.write(stdio.streams.stderr, b"e")
    os.write(stdio.streams.stdout, b"o")
    assert (os.read(stdio.errors, 10), os.read(stdio.reader, 10)) == (b"e", b"o")
    stdio.close_theirs()
    assert os.read(stdio.errors, 10) == b""
    stdio.close_ours()
    assert stdio.errors is None


@given(pieces=st.lists(st.binary(max_size=40), max_size=30), bound=st.integers(0, 64))
def test_head_and_tail_are_those_of_the_whole(pieces: list[bytes], bound: int) -> None:
    """G3"""
    bounded_output = BoundedOutput(bound)
    for piece in pieces:
        bounded_output.add(piece)
    whole, output = b"".join(pieces), bounded_output.output()
    assert output.total == len(whole)
    assert len(output.head) + len(output.tail) == min(bound, len(whole))
    assert whole.startswith(output.head)
    assert whole.endswith(output.tail)
    assert output.truncated is (len(whole) > bound)


def test_taking_begins_anew() -> None:
    bounded_output = BoundedOutput(8)
    bounded_output.add(b"0123456789")
    assert bounded_output.take().text() == "0123\n[… 2 of 10 bytes are left out …]\n6789"
    assert bounded_output.take().total == 0
    bounded_output.add(b"x")
    assert bounded_output.take().text() == "x"


def test_g3_a_gigabyte_costs_no_more_than_its_bound() -> None:
    """G3, target 9: small pieces and large ones."""
    bounded_output = BoundedOutput(65_536)
    piece = bytes(65_536)
    tracemalloc.start()
    try:
        for _ in range(2048):
            bounded_output.add(piece)
        for _ in range(20_000):
            bounded_output.add(b"line\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bounded_output.output().total == 2048 * 65_536 + 100_000
    assert peak < 512 * 1024
