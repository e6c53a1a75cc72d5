"""Our side of the launcher."""

from __future__ import annotations

import sys

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxUnavailable
from tertulia.events.clock import SystemClock
from tertulia.sandbox.launched import _ending
from tertulia.sandbox.runner import Command
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import Ending
from tests.sandbox.confined import DEADLINE_S, Place


def unconfined(place: Place, *argv: str) -> Command:
    command = place.command(*argv)
    return replace(command, confinement=replace(command.confinement, mode="danger_full_access"))


async def test_a_launcher_that_was_killed_is_started_anew(place: Place) -> None:
    sandbox = Sandbox(clock=SystemClock())
    assert (await sandbox.run(unconfined(place, "true"))).exit_code == 0
    launcher = sandbox._unconfined._launcher
    first = launcher._process
    first.kill()
    first.wait()
    # Its keepers hear of it too, and the one that was ready must be gone before it can be missed.
    line = launcher._line
    while line.fileno() != -1:
        finished = await sandbox.run(unconfined(place, "sh", "-c", "exit 5"), timeout_s=DEADLINE_S)
        if launcher._process is not first:
            break
    assert finished.exit_code == 5
    await sandbox.close()


async def test_a_python_that_is_not_there_refuses_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    sandbox = Sandbox(clock=SystemClock())
    with pytest.raises(SandboxUnavailable, match="cannot be handed to its launcher"):
        await sandbox.run(unconfined(place, "touch", "ran"))
    await sandbox.close()
    assert list(place.root.iterdir()) == []


@pytest.mark.parametrize(
    ("report", "ending"),
    [
        (b"", Ending(137)),
        (b'{"exit_code": 3, "limit": null, "failure": ""}', Ending(3)),
        (b'{"exit_code": 137, "limit": "processes", "failure": ""}', Ending(137, limit="processes")),
        (b'{"exit_code": 125, "limit": null, "failure": "exec:2:No such file"}', Ending(127, reason="No such file")),
        (b'{"exit_code": 125, "limit": null, "failure": "exec:13:Denied"}', Ending(126, reason="Denied")),
        (b'{"exit_code": 125, "limit": null, "failure": "confine:1:No"}', Ending(125, began=False, reason="No")),
    ],
)
def test_what_a_report_means(report: bytes, ending: Ending) -> None:
    assert _ending(report) == ending
