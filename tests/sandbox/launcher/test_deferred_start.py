"""A command that begins late: what stands around it runs once, whatever happens in between."""

from __future__ import annotations

import asyncio
import os

import pytest

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.sandbox.launcher.deferred_start import DeferredStart
from tertulia.sandbox.runner import Change
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, Streams

CHANGE = Change("/x", "made")


class Acts:
    """What happens around a command, and the command."""

    def __init__(self, *, refused: Exception | None = None, broken: Exception | None = None) -> None:
        self.seen: list[str] = []
        self._refused, self._broken = refused, broken
        self.ended: OnProcessEnd | None = None
        self.over: asyncio.Future[ProcessEnd] = asyncio.get_running_loop().create_future()

    def before(self) -> None:
        self.seen.append("before")
        if self._refused is not None:
            raise self._refused

    def after(self) -> tuple[Change, ...]:
        self.seen.append("after")
        return (CHANGE,)

    def start(self, streams: Streams, ended: OnProcessEnd) -> Acts:
        self.seen.append("start")
        if self._broken is not None:
            raise self._broken
        os.fstat(streams.stdin)
        asyncio.get_running_loop().call_soon(ended, ProcessEnd(3))
        return self

    def kill(self) -> None:
        self.seen.append("kill")

    def terminate(self) -> None:
        self.seen.append("terminate")

    def leader(self) -> int | None:
        return 7

    def late(self) -> DeferredStart:
        fd = os.open("/dev/null", os.O_RDWR)
        late = DeferredStart(self, self.start, Streams(fd, fd, fd), self.over.set_result)
        os.close(fd)
        return late


async def test_it_begins_after_the_one_and_is_over_after_the_other() -> None:
    acts = Acts()
    late = acts.late()
    late.terminate()
    assert late.leader() is None
    ending = await asyncio.wait_for(acts.over, 10)
    assert ending == ProcessEnd(3, changes=(CHANGE,))
    late.kill()
    late.terminate()
    assert late.leader() == 7
    assert acts.seen == ["before", "start", "after", "kill", "terminate"]


async def test_killed_before_it_began_it_never_does() -> None:
    acts = Acts()
    acts.late().kill()
    assert (await asyncio.wait_for(acts.over, 10)).exit_code == 137
    assert acts.seen == ["before", "after"]


@pytest.mark.parametrize(
    ("problems", "reason"),
    [
        ({"refused": SandboxError("not so")}, "not so"),
        ({"broken": SandboxUnavailableError("not there")}, "not there"),
        ({"broken": OSError(28, "No space left on device")}, "No space left on device"),
    ],
)
async def test_what_refuses_it_is_its_reason(problems: dict[str, Exception], reason: str) -> None:
    acts = Acts(**problems)
    late = acts.late()
    ending = await asyncio.wait_for(acts.over, 10)
    assert late.leader() is None
    assert (ending.began, ending.reason) == (False, reason)
    assert acts.seen[-1] == "after"
