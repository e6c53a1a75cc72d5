"""Which bubblewrap is trusted, and what becomes of a command that it cannot start."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox import availability
from tertulia.sandbox.availability import BWRAP
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.runner import Output
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import ProcessEnd
from tests.sandbox.confined import DEADLINE_S, Place, idle_threads, need

NO_OUTPUT = Output(b"", b"", 0)


def plant(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a21_it_is_taken_from_one_absolute_place() -> None:
    """A21"""
    assert BWRAP == "/usr/bin/bwrap"
    need("bubblewrap")
    assert BubblewrapTier().find().startswith("bubblewrap ")


async def test_a21_a_fake_on_the_path_and_in_the_workspace_is_not_used(
    place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A21: first on PATH, in the workspace, and in the PATH that the command itself gets."""
    proof = tmp_path / "fake-was-run"
    for folder in (tmp_path, place.root):
        plant(folder / "bwrap", f'touch {proof}; exec {BWRAP} "$@"')
    monkeypatch.setenv("PATH", f"{place.root}:{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(place.root)
    environment = {"PATH": f"{place.root}:{tmp_path}:/usr/bin:/bin"}
    finished = await sandbox.run(place.command("echo", "real", environment=environment), timeout_s=DEADLINE_S)
    assert finished.output.text() == "real\n"
    assert not proof.exists()


async def test_what_the_command_is_to_preload_is_not_preloaded_by_bubblewrap(place: Place, sandbox: Sandbox) -> None:
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": f"{place.root}/evil.so", "LD_DEBUG": "files"}
    finished = await sandbox.run(place.command("true", environment=environment), timeout_s=DEADLINE_S)
    assert "evil.so" in finished.output.text()
    assert "bwrap" not in finished.output.text()


async def test_no_value_of_the_environment_is_in_the_process_list(place: Place, sandbox: Sandbox) -> None:
    running = await sandbox.start(place.command("sleep", "600", environment={"PATH": "/usr/bin:/bin", "X": "canary-1"}))
    await place.until(lambda: running._spawned._namespaces.first_pid)
    lines = [
        Path("/proc", str(pid), "cmdline").read_bytes() for pid in (running._spawned._namespaces.outer.pid, os.getpid())
    ]
    await running.kill()
    assert not any(b"canary-1" in line for line in lines)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (None, "is missing; install it: `[a-z -]+ bubblewrap`"),
        ("echo bubblewrap 0.3.1", "at least 0.8.0 is needed; install it"),
        ("echo nonsense", "does not say its version"),
    ],
)
async def test_a20_a_missing_or_unfit_bubblewrap_refuses_every_command(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, complaint: str
) -> None:
    """A20: refused with the reason and the package; never run without it."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    if script is not None:
        plant(program, script)
        monkeypatch.setattr(availability, "_check_owner", lambda path: None)
    sandbox = Sandbox(tier=BubblewrapTier(str(program)), clock=SystemClock())
    for _ in range(2):
        with pytest.raises(SandboxUnavailableError, match=complaint):
            await sandbox.run(place.command("touch", "ran"))
    assert list(place.root.iterdir()) == []


async def test_a20_user_namespaces_that_are_off_refuse_every_command(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A20: bubblewrap is there, and says that it may not."""
    monkeypatch.setattr(availability, "_check_owner", lambda path: None)
    script = "echo 'bwrap: No permissions to creating new namespace' >&2; exit 1"
    sandbox = Sandbox(tier=BubblewrapTier(str(plant(tmp_path / "bwrap", script))), clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match=r"cannot make namespaces here \(bwrap: No permissions"):
        await sandbox.run(place.command("touch", "ran"))
    assert list(place.root.iterdir()) == []


async def test_a20_a_bubblewrap_that_confines_nothing_is_found_out(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A20: the self-test does not believe; it tries."""
    monkeypatch.setattr(availability, "_check_owner", lambda path: None)
    code = (
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "if sys.argv[-1] == '--version': print('bubblewrap 0.8.0'); sys.exit()\n"
        "words = open(int(sys.argv[2])).read().split(chr(0))\n"
        "after = lambda word: words[words.index(word) + 1]\n"
        "status = int(after('--json-status-fd'))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.read(int(after('--block-fd')), 1)\n"
        "    os.chdir(after('--chdir'))\n"
        "    os.execvp(sys.argv[4], sys.argv[4:])\n"
        "os.write(status, b'{ \"child-pid\": %d }\\n' % child)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "os.write(status, b'{ \"exit-code\": %d }\\n' % code)\n"
    )
    program = tmp_path / "bwrap"
    program.write_text(code)
    program.chmod(0o755)
    sandbox = Sandbox(tier=BubblewrapTier(str(program)), clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match=r"leaks here: a command could .*connect to a UNIX socket"):
        await sandbox.run(place.command("touch", "ran"))
    assert list(place.root.iterdir()) == []


def test_a21_a_program_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    """A21"""
    program = plant(tmp_path / "bwrap", "echo bubblewrap 99.0.0")
    program.chmod(program.stat().st_mode | stat.S_IWOTH)
    with pytest.raises(SandboxUnavailableError, match="not root's alone, so it is not trusted"):
        BubblewrapTier(str(program)).find()
    link = tmp_path / "elsewhere" / "bwrap"
    link.parent.mkdir(mode=0o755)
    link.symlink_to(BWRAP)
    with pytest.raises(SandboxUnavailableError, match="not trusted"):
        BubblewrapTier(str(link)).find()


@pytest.mark.parametrize(("program", "groups"), [("/no/such/bwrap", None), (BWRAP, Path("/no/such/group"))])
async def test_what_vanishes_after_it_was_tried_refuses_the_command(
    place: Place, sandbox: Sandbox, program: str, groups: Path | None
) -> None:
    """A20: and nothing of the attempt is left, neither stubs nor descriptors."""
    await sandbox.check()
    await idle_threads()
    tier = sandbox._tier
    before = len(os.listdir("/proc/self/fd"))
    tier._program, tier._cgroups = program, groups
    with pytest.raises(SandboxUnavailableError, match=r"cannot be started: No such file|is missing; install"):
        await sandbox.run(place.command("touch", "ran"))
    await idle_threads()
    assert list(place.root.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_how_an_ending_is_told() -> None:
    tier = BubblewrapTier()

    def conclusion(ending: ProcessEnd, text: bytes) -> ProcessEnd:
        return tier.conclude(ending, Output(text, b"", len(text)))

    failed = ProcessEnd(1, began=False)
    assert conclusion(failed, b"bwrap: execvp x: No such file or directory\n").exit_code == 127
    assert conclusion(failed, b"bwrap: execvp x: Permission denied\n").exit_code == 126
    assert conclusion(failed, b"bwrap: Can't mount\n").reason == "bwrap: Can't mount"
    assert not conclusion(failed, b"bwrap: Can't mount\n").began
    assert conclusion(failed, b"").reason == "bwrap ended (1)"
    # A command that says the same is still a command.
    assert conclusion(ProcessEnd(1), b"bwrap: execvp x: No such file or directory\n") == ProcessEnd(1)


async def test_a_command_that_cannot_be_confined_is_not_run_and_says_why(place: Place, sandbox: Sandbox) -> None:
    """The working directory is gone when bubblewrap wants to go there."""
    command = place.command("touch", "ran")
    await sandbox.check()
    gone = replace(command, cwd=str(place.root / "gone"))
    os.mkdir(gone.cwd)
    process = sandbox._spawn(gone, sandbox._tier, None)
    os.rmdir(gone.cwd)
    finished = await process.wait(DEADLINE_S)
    assert finished is not None
    if finished.ended != "exited":
        assert finished.ended == "not_started"
        assert "chdir" in (finished.reason or "")


async def test_a_refused_command_is_an_error_of_run(place: Place, sandbox: Sandbox) -> None:
    confinement = replace(place.command("true").confinement, masked=("/proc/self/status",))
    with pytest.raises(SandboxError, match=r"could not be confined and was not run: /proc/\d+/status"):
        await sandbox.run(place.command("touch", "ran", confinement=confinement), timeout_s=DEADLINE_S)
    assert list(place.root.iterdir()) == []
