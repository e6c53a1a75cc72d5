"""The self-test: what it believes, and what it finds out."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.launcher.launched_process import UnconfinedTier
from tertulia.sandbox.runner import Command, CommandResult, Output
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.selftest import ATTEMPTS, try_to_escape
from tertulia.sandbox.tier import SIGNAL_ATTEMPT, Tier
from tests.sandbox.confined import need
from tests.tables import each_row

HELD = b'{"succeeded": [%s]}' % b", ".join([b"false"] * len(ATTEMPTS))


def finished(text: bytes, code: int = 0) -> CommandResult:
    return CommandResult(code, "exited", Output(text, b"", len(text)), 0.1)


async def judge(text: bytes, act=lambda command: None, tier: Tier | None = None) -> tuple[str, ...]:
    async def run(command: Command) -> CommandResult:
        open(os.path.join(command.cwd, "inside"), "w", encoding="ascii").close()
        act(command)
        return finished(text)

    return await try_to_escape(tier or UnconfinedTier(), run)


async def test_what_held_is_listed() -> None:
    assert await judge(HELD) == ATTEMPTS


@each_row("number", range(len(ATTEMPTS)))
async def test_each_attempt_that_succeeds_makes_the_sandbox_unavailable(number: int) -> None:
    """A20: never unsandboxed because of one leak that seems small."""
    text = b'{"succeeded": [%s]}' % b", ".join([b"true" if at == number else b"false" for at in range(len(ATTEMPTS))])
    with pytest.raises(SandboxUnavailableError, match=f"leaks here: a command could {ATTEMPTS[number]}"):
        await judge(text)


async def test_what_is_seen_from_outside_counts_more_than_what_is_said() -> None:
    def reach(command: Command) -> None:
        outside, port, unix, _, protected = command.argv[-5:]
        open(outside, "w", encoding="ascii").close()
        os.truncate(protected, 0)
        open(os.path.join(os.path.dirname(protected), "moved"), "w", encoding="ascii").close()
        socket.create_connection(("127.0.0.1", int(port))).close()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(unix)

    with pytest.raises(SandboxUnavailableError) as refused:
        await judge(HELD, reach)
    seen = ("write outside", "empty a file", "move a file out", "reach a listener", "connect to a UNIX socket")
    assert all(attempt in refused.value.message for attempt in seen)


async def test_what_a_tier_lists_may_succeed_and_is_not_called_held() -> None:
    """Issue 19: signals alone, and only where the tier says so."""

    class Lists(UnconfinedTier):
        listed_attempts = frozenset({SIGNAL_ATTEMPT})

    at = [attempt == SIGNAL_ATTEMPT for attempt in ATTEMPTS]
    assert await judge(msgspec.json.encode({"succeeded": at}), tier=Lists()) == tuple(
        attempt for attempt in ATTEMPTS if attempt != SIGNAL_ATTEMPT
    )
    mounted = [attempt in (SIGNAL_ATTEMPT, "mount") for attempt in ATTEMPTS]
    with pytest.raises(SandboxUnavailableError, match=r"a command could mount$"):
        await judge(msgspec.json.encode({"succeeded": mounted}), tier=Lists())


async def test_a_probe_that_does_not_answer_proves_nothing() -> None:
    with pytest.raises(SandboxUnavailableError, match="did not run: no python"):
        await judge(b"no python")
    with pytest.raises(SandboxUnavailableError, match="did not run: exit code 0"):
        await judge(b"")


async def test_a_workspace_that_cannot_be_written_is_no_workspace() -> None:
    async def run(command: Command) -> CommandResult:
        return finished(HELD)

    with pytest.raises(SandboxUnavailableError, match="does not let a command write to its workspace"):
        await try_to_escape(UnconfinedTier(), run)


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a short name, as an address of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="l7") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.mark.parametrize("passes", range(6))
async def test_l7_a_stop_during_it_leaves_no_scene(own_folder: Path, passes: int) -> None:
    """L7: whenever it comes, also before the command was started."""
    need("bubblewrap")
    sandbox = Sandbox(tier=BubblewrapTier(), clock=SystemClock())
    task = asyncio.create_task(sandbox.check())
    while passes and not task.done():
        await asyncio.sleep(0)
        passes -= bool(list(own_folder.iterdir())) or passes > 3
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await sandbox.close()
    # A thread that would still make one has ended with this.
    await asyncio.to_thread(lambda: None)
    assert list(own_folder.iterdir()) == []


async def test_l7_a_scene_that_cannot_be_made_is_not_left(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L7: a refusal leaves nothing behind."""
    monkeypatch.setattr(socket.socket, "listen", lambda self: (_ for _ in ()).throw(OSError(98, "in use")))
    with pytest.raises(SandboxUnavailableError, match=r"cannot be set up in .*in use"):
        await judge(HELD)
    assert list(own_folder.iterdir()) == []


async def test_l7_what_a_killed_process_left_goes_with_the_next_self_test(own_folder: Path) -> None:
    """L7: and nothing of a process that still runs, nor anything of other names."""
    with subprocess.Popen(["true"]) as dead:
        pass
    (own_folder / f"tertulia-try-{dead.pid}-abc" / "workspace").mkdir(parents=True)
    stays = {f"tertulia-try-{os.getppid()}-abc", f"tertulia-{dead.pid}-abc", "tertulia-try-x"}
    for name in stays:
        (own_folder / name).mkdir()
    assert await judge(HELD) == ATTEMPTS
    assert {path.name for path in own_folder.iterdir()} == stays


async def test_a_sandbox_that_does_not_start_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Command] = []

    async def run(command: Command) -> CommandResult:
        seen.append(command)
        raise SandboxError("because")

    with pytest.raises(SandboxUnavailableError, match="does not start: because"):
        await try_to_escape(UnconfinedTier(), run)
    assert not os.path.exists(seen[0].cwd)
    await asyncio.sleep(0)
