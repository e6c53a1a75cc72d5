"""The runner itself: tried out once, refused as long as it fails."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox import sandbox
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.selftest import ATTEMPTS, try_to_escape
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, ROOT, Place, need


class Counted(BubblewrapTier):
    """Counts how often it is looked for, and can be made to be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.missing, self.replaced = 0, False, 0

    def identity(self) -> tuple[object, ...]:
        return (*super().identity(), self.replaced)

    def find(self) -> str:
        self.found += 1
        if self.missing:
            raise SandboxUnavailableError("missing")
        return super().find()


async def test_it_is_tried_out_once_however_many_ask(place: Place) -> None:
    need("bubblewrap")
    tier = Counted()
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    finished = await asyncio.gather(*(sandbox.run(place.command("true")) for _ in range(4)))
    assert [one.exit_code for one in finished] == [0] * 4
    assert tier.found == 1
    report = await sandbox.check()
    assert (report.tier, tier.found) == ("bubblewrap", 1)
    assert report.attempts == ATTEMPTS
    await sandbox.close()


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_a_second_session_of_the_process_does_not_repeat_the_self_test(
    place: Place, tier: Literal["bubblewrap", "landlock"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 7: once at first use. What it rests on is looked at all the same."""
    need(tier)
    tried: list[str] = []

    async def counted(tier: Any, run: Any) -> tuple[str, ...]:
        tried.append(tier.name)
        return await try_to_escape(tier, run)

    monkeypatch.setattr(sandbox, "try_to_escape", counted)
    monkeypatch.setattr(sandbox, "_held", {})
    reports = []
    for _ in range(2):
        one = Sandbox(tier=tier, clock=SystemClock())
        assert (await one.run(place.command("true"), timeout_s=DEADLINE_S)).exit_code == 0
        reports.append(await one.check())
        await one.close()
    assert (tried, reports[0]) == ([tier], reports[1])
    # Another user, another result.
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: 12345)
    other = Sandbox(tier=tier, clock=SystemClock())
    await other.check()
    await other.close()
    assert tried == [tier, tier]


async def test_a_program_that_was_replaced_is_tried_out_again(place: Place) -> None:
    """A21: by its file, not by its name."""
    need("bubblewrap")
    tier = Counted()
    runner = Sandbox(tier=tier, clock=SystemClock())
    await runner.check()
    await runner.check()
    assert tier.found == 1
    tier.replaced = 1
    await runner.check()
    assert tier.found == 2
    tier.replaced, tier.missing = 2, True
    with pytest.raises(SandboxUnavailableError):
        await runner.run(place.command("touch", "made"))
    assert not (place.root / "made").exists()
    await runner.close()


async def test_a20_what_was_missing_may_be_there_the_next_time(place: Place) -> None:
    """A20: somebody installs the package and tries again."""
    need("bubblewrap")
    tier = Counted()
    tier.missing = True
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    refused = await asyncio.gather(*(sandbox.run(place.command("true")) for _ in range(2)), return_exceptions=True)
    assert [type(error) for error in refused] == [SandboxUnavailableError] * 2
    tier.missing = False
    assert (await sandbox.run(place.command("true"))).exit_code == 0
    await sandbox.close()


async def test_who_is_cancelled_while_it_is_tried_out_hinders_nobody(place: Place) -> None:
    need("bubblewrap")
    sandbox = Sandbox(clock=SystemClock())
    first = asyncio.create_task(sandbox.check())
    second = asyncio.create_task(sandbox.run(place.command("true"), timeout_s=DEADLINE_S))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).exit_code == 0
    await sandbox.close()


def test_a24_nothing_runs_between_fork_and_exec() -> None:
    """A24: no preexec_fn, no shell (ruff holds the rest of that)."""
    sources = [path.read_text() for path in (ROOT / "src" / "tertulia").rglob("*.py")]
    assert not [text for text in sources if re.search(r"preexec_fn *=|os\.system|os\.popen", text)]


LARGE = """
import asyncio, sys
from pathlib import Path
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import Place

async def main(folder):
    place, sandbox = Place(Path(folder)), Sandbox(clock=SystemClock())
    async def fastest():
        return min([(await sandbox.run(place.command("true"))).duration_s for _ in range(15)])
    small = await fastest()
    ballast = bytearray(b"x" * (1 << 20)) * 1536
    print((await fastest() - small) * 1000, len(ballast))
    await sandbox.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
def test_a24_a_process_of_one_and_a_half_gigabytes_starts_a_command_as_fast(tmp_path: Path) -> None:
    """A24: within 20 ms of a small one, in the same run; the fastest of each, which other work delays least."""
    need("bubblewrap")
    line = [sys.executable, "-c", LARGE, str(tmp_path)]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert float(ran.stdout.split()[0]) <= 20


REACH = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close()
    print("reached")
except OSError as error:
    print(type(error).__name__)
try:
    socket.socket(socket.AF_UNIX)
except PermissionError:
    print("no UNIX sockets")
"""


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("network", [False, True])
async def test_a9_a10_the_network_is_there_where_it_is_allowed_and_unix_sockets_never(
    place: Place, tier: Literal["bubblewrap", "landlock"], network: bool
) -> None:
    """A9, A10: judged by the listener."""
    need(tier)
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        command = place.python(REACH, str(listener.getsockname()[1]))
        allowed = replace(command, confinement=replace(command.confinement, network=network))
        text = (await sandbox.run(allowed, timeout_s=DEADLINE_S)).output.text()
        await sandbox.close()
        assert ("reached" in text) is network
        assert "no UNIX sockets" in text
        if network:
            listener.accept()[0].close()
        with pytest.raises(BlockingIOError):
            listener.accept()


# ---- auto


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sandbox._TIERS, "auto", lambda: BubblewrapTier("/no/such/bwrap"))


async def test_auto_is_bubblewrap_where_that_works(place: Place) -> None:
    """DESIGN, changed since"""
    need("bubblewrap")
    warnings: list[str] = []
    runner = Sandbox(tier="auto", clock=SystemClock(), on_lesser=warnings.append)
    assert (await runner.check()).tier == "bubblewrap"
    assert (await runner.run(place.command("true"))).exit_code == 0
    assert warnings == []
    await runner.close()


async def test_auto_is_landlock_where_bubblewrap_is_missing_and_says_so_once(place: Place, no_bubblewrap: None) -> None:
    """DESIGN, changed since"""
    need("landlock")
    warnings: list[str] = []
    runner = Sandbox(tier="auto", clock=SystemClock(), on_lesser=warnings.append)
    for _ in range(2):
        finished = await runner.run(place.command("sh", "-c", "touch here ../outside"), timeout_s=DEADLINE_S)
        assert finished.exit_code == 1
    assert (place.root / "here").exists()
    assert not (place.root.parent / "outside").exists()
    assert (await runner.check()).tier == "landlock"
    assert runner.not_covered
    assert len(warnings) == 1
    assert "/no/such/bwrap is missing" in warnings[0]
    await runner.close()


async def test_auto_refuses_where_neither_works_and_tries_both_again(
    place: Place, no_bubblewrap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A20: nothing runs, and both reasons are given."""
    need("landlock")
    monkeypatch.setattr("tertulia.sandbox.launcher.landlock.abi", lambda: 0)
    runner = Sandbox(tier="auto", clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match=r"no/such/bwrap is missing.*no Landlock"):
        await runner.run(place.command("touch", "here"))
    assert list(place.root.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setitem(sandbox._TIERS, "auto", lambda: BubblewrapTier("/no/such/bwrap"))
    assert (await runner.check()).tier == "landlock"
    await runner.close()


async def test_auto_never_leaves_what_it_has_chosen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A20: a bubblewrap that goes away later refuses commands; they do not run in less."""
    need("bubblewrap")
    tier = Counted()
    monkeypatch.setitem(sandbox._TIERS, "auto", lambda: tier)
    runner = Sandbox(tier="auto", clock=SystemClock())
    assert (await runner.check()).tier == "bubblewrap"
    tier.missing, tier.replaced = True, 1
    with pytest.raises(SandboxUnavailableError):
        await runner.run(place.command("touch", "here"))
    assert list(place.root.iterdir()) == []
    await runner.close()
