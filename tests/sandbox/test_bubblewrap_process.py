"""One command below bubblewrap, from the moment it is held to the moment its last process is gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import termios

import pytest

from tertulia.events.clock import SystemClock
from tertulia.sandbox import bubblewrap_namespaces
from tertulia.sandbox.limits.limit_watch import LimitWatch
from tertulia.sandbox.limits.usage import SOONEST_S, UsageMeter
from tertulia.sandbox.runner import TerminalSize
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, ROOT, Place, need


async def test_limits_that_cannot_be_set_keep_the_command_from_beginning(
    place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A19: fails closed."""
    await sandbox.check()

    def refuse(pid: int, limits: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(bubblewrap_namespaces, "set_rlimits", refuse)
    running = await sandbox.start(place.command("touch", "ran"))
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert finished.ended == "not_started"
    assert finished.reason == "its limits cannot be set: Operation not permitted"
    assert list(place.root.iterdir()) == []


async def test_a_command_that_is_killed_before_it_is_known_never_begins(place: Place, sandbox: Sandbox) -> None:
    await sandbox.check()
    processes = [await sandbox.start(place.command("touch", f"ran-{number}", place.tag)) for number in range(5)]
    finished = await asyncio.gather(*(process.kill() for process in processes))
    assert {one.ended for one in finished} == {"killed"}
    assert list(place.root.iterdir()) == []
    assert place.survivors() == []


async def test_a22_a_command_cannot_type_into_its_terminal(place: Place, sandbox: Sandbox) -> None:
    """A22: TIOCSTI is refused by the filter, whatever the kernel's own setting."""
    act = f"fcntl.ioctl(0, {termios.TIOCSTI}, b'x')"
    code = f"import fcntl\ntry: {act}\nexcept OSError as error: print('errno', error.errno)"
    running = await sandbox.start(place.python(code, terminal=TerminalSize()))
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert b"errno 1" in finished.output.head


async def test_stubs_are_there_while_it_runs_and_gone_when_it_has_ended(place: Place, sandbox: Sandbox) -> None:
    """A5: also when two overlap."""
    first = await sandbox.start(place.command("cat", keep_stdin=True))
    second = await sandbox.start(place.command("cat", keep_stdin=True))
    await place.until((place.root / ".git").is_dir)
    first.close_stdin()
    await first.wait(DEADLINE_S)
    await place.until(lambda: not second._spawned._namespaces.waits)
    assert (place.root / ".git").is_dir()
    await second.kill()
    assert list(place.root.iterdir()) == []


HASTY = """
import asyncio, os, signal, sys
from pathlib import Path
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import Place

async def main(folder, tag):
    place, sandbox = Place(Path(folder)), Sandbox(clock=SystemClock())
    await sandbox.check()
    await sandbox.start(place.command("sh", "-c", "touch ran; sleep 600", tag))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a18_a_product_that_is_killed_in_the_moment_it_starts_a_command_leaves_nothing(place: Place) -> None:
    """A18: before bubblewrap is bound to our life by itself."""
    need("bubblewrap")
    line = [sys.executable, "-c", HASTY, "", place.tag]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    for number in range(5):
        line[-2] = str(place.root / f"inner-{number}")
        os.mkdir(line[-2])
        assert subprocess.run(line, env=environment, timeout=HANG_S, check=False).returncode == -9
    until = SystemClock().monotonic() + DEADLINE_S
    while place.survivors() and SystemClock().monotonic() < until:
        pass
    assert place.survivors() == []
    assert list(place.root.rglob("ran")) == []


class Counting(UsageMeter):
    """Exceeds at the third look."""

    looks = 0

    def look(self) -> str | None:
        self.looks += 1
        self.pause_s = 0.0
        return "memory_bytes" if self.looks == 3 else None


async def test_it_calls_once_when_a_limit_is_exceeded() -> None:
    meter = Counting(os.getpid(), processes=None, memory=None, written=None)
    meter.pause_s = 0.0
    heard: list[str] = []
    called = asyncio.Event()
    watch = LimitWatch(meter, lambda limit: (heard.append(limit), called.set()))
    await asyncio.wait_for(called.wait(), HANG_S)
    await asyncio.sleep(0)
    assert (heard, meter.looks) == (["memory_bytes"], 3)
    watch.stop()
    watch.stop()


async def test_one_that_is_stopped_looks_no_more() -> None:
    meter = Counting(os.getpid(), processes=None, memory=None, written=None)
    meter.pause_s = SOONEST_S
    watch = LimitWatch(meter, lambda limit: pytest.fail("it was stopped"))
    watch.stop()
    assert watch._timer.cancelled()
