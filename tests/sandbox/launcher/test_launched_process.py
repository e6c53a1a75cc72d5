"""Our side of the launcher."""

from __future__ import annotations

import os
import select
import signal
import sys

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.launcher.launched_process import _ending, _Report
from tertulia.sandbox.runner import Command
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import ProcessEnd
from tests.sandbox.confined import DEADLINE_S, Place
from tests.sandbox.kept import above, is_running
from tests.tables import each_row


def unconfined(place: Place, *argv: str) -> Command:
    command = place.command(*argv)
    return replace(command, confinement=replace(command.confinement, mode="danger_full_access"))


async def test_a_launcher_that_was_killed_is_started_anew(place: Place) -> None:
    sandbox = Sandbox(clock=SystemClock())
    assert (await sandbox.run(unconfined(place, "true"))).exit_code == 0
    launcher = sandbox._unconfined._launcher
    _, first = above(launcher)
    os.kill(first, signal.SIGKILL)
    gone = select.poll()
    gone.register(launcher._gone, 0)
    assert gone.poll(DEADLINE_S * 1000), "the guardian has not ended what the launcher left"
    finished = await sandbox.run(unconfined(place, "sh", "-c", "exit 5"), timeout_s=DEADLINE_S)
    assert finished.exit_code == 5
    assert above(launcher)[1] != first
    await sandbox.close()


async def test_closing_waits_until_guardian_and_launcher_are_gone(place: Place) -> None:
    """L5: and leaves no descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    sandbox = Sandbox(clock=SystemClock())
    await sandbox.run(unconfined(place, "true"))
    pids = above(sandbox._unconfined._launcher)
    await sandbox.close()
    # Its last descriptor goes a moment before it does.
    await place.until(lambda: not any(map(is_running, pids)))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_python_that_is_not_there_refuses_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    sandbox = Sandbox(clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match="cannot be handed to its launcher"):
        await sandbox.run(unconfined(place, "touch", "ran"))
    await sandbox.close()
    assert list(place.root.iterdir()) == []


@each_row(
    ("report", "ending"),
    [
        (b'{"exit_code": 3, "limit": null, "failure": ""}', ProcessEnd(3)),
        (b'{"exit_code": 0, "limit": null, "written": 4096, "failure": ""}', ProcessEnd(0, written=4096)),
        (
            b'{"exit_code": 137, "limit": "processes", "failure": ""}',
            ProcessEnd(137, limit="processes", sampled=True),
        ),
        (
            b'{"exit_code": 125, "limit": null, "failure": "exec:2:No such file"}',
            ProcessEnd(127, reason="No such file"),
        ),
        (b'{"exit_code": 125, "limit": null, "failure": "exec:13:Denied"}', ProcessEnd(126, reason="Denied")),
        (b'{"exit_code": 125, "limit": null, "failure": "confine:1:No"}', ProcessEnd(125, began=False, reason="No")),
    ],
)
def test_what_a_report_means(report: bytes, ending: ProcessEnd) -> None:
    assert _ending(msgspec.json.decode(report, type=_Report)) == ending
