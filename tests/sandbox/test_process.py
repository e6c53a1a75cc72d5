"""Driving a command without a task: draining, feeding, ending. The tier is a puppet."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os

import pytest

from tertulia.errors import ClosedError, SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox import process as process_module
from tertulia.sandbox.process import CommandProcess
from tertulia.sandbox.runner import Output, TerminalSize, TierName
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, Streams
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
        await asyncio.wait_for(writing, 10)
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
