"""Our side of the launcher."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.launcher.launched_process import UnconfinedTier, _ending, _Report
from tertulia.sandbox.runner import Command, Output
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


async def test_only_full_access_leaves_the_sandbox_and_needs_none(place: Place, tmp_path: Path) -> None:
    """A20: the same sandbox that refuses everything else."""
    sandbox = Sandbox(tier=BubblewrapTier("/no/such/bwrap"), clock=SystemClock())
    command = place.command("touch", str(tmp_path / "outside"))
    for mode in ("read_only", "workspace_write"):
        with pytest.raises(SandboxUnavailableError):
            await sandbox.run(replace(command, confinement=replace(command.confinement, mode=mode)))
        assert not (tmp_path / "outside").exists()
    danger = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
    running = await sandbox.start(danger)
    assert running.tier == "none"
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert finished.exit_code == 0
    assert (tmp_path / "outside").exists()
    await sandbox.close()


async def test_a_directory_of_the_commands_own_goes_with_it(place: Place, tmp_path: Path) -> None:
    """S003-24: by the keeper, which is there when we are not."""
    sandbox = Sandbox(tier=BubblewrapTier("/no/such/bwrap"), clock=SystemClock())
    own = tmp_path / "own"
    own.mkdir()
    (own / "said").write_text("secret")
    command = place.command("true")
    danger = replace(command.confinement, mode="danger_full_access")
    finished = await sandbox.run(replace(command, confinement=danger, temporary=(str(own),)), timeout_s=DEADLINE_S)
    assert finished.exit_code == 0
    assert not own.exists()
    await sandbox.close()


def test_it_finds_nothing_and_adds_nothing() -> None:
    tier = UnconfinedTier()
    assert tier.find() == ""
    assert tier.conclude(ProcessEnd(1), Output(b"MemoryError", b"", 11)) == ProcessEnd(1)
    assert tier.not_covered
    tier.close()
