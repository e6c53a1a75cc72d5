"""Issue 25, 13: commands on macOS, with a program in the place of `sandbox-exec` that shows what it was given.

Everything but Seatbelt itself is real: processes, streams, groups, terminals. No call of Linux alone is made.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, SandboxError, SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.policy.host_rules import HostRules
from tertulia.sandbox import availability
from tertulia.sandbox.macos import seatbelt_tier
from tertulia.sandbox.macos.seatbelt_tier import GroupTier, SeatbeltTier, seatbelt_problem
from tertulia.sandbox.runner import CommandLimits, CommandResult, TerminalSize
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import DAEMON, Place
from tests.sandbox.macos.profile_language import Profile
from tests.sandbox.proxy.proxied import until
from tests.tables import each_row

CONFINES_NOTHING = """#!/bin/sh
[ "$1" = -p ] || exit 65
printf %s "$2" > "${PROFILE_IN:-/dev/null}"
shift 2
exec "$@"
"""


@pytest.fixture(autouse=True)
def _on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what no Mac has."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(seatbelt_tier, "seatbelt_problem", lambda program: None)
    for name in ("pidfd_open", "memfd_create", "O_PATH"):
        monkeypatch.delattr(os, name)


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "sandbox-exec"
    path.write_text(CONFINES_NOTHING)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
async def runner(program: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    """Of a tier whose self-test is left out: what it would say is tested below."""

    async def held(tier: object, run: object) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr("tertulia.sandbox.sandbox.try_to_escape", held)
    sandbox = Sandbox(tier=SeatbeltTier(program), clock=SystemClock())
    yield sandbox
    await sandbox.close()


async def finished(sandbox: Sandbox, place: Place, *argv: str, **fields: object) -> CommandResult:
    return await sandbox.run(place.command(*argv, **fields), timeout_s=HANG_S)


async def test_it_is_not_used_where_its_self_test_fails_and_the_refusal_says_at_what(
    program: str, place: Place
) -> None:
    sandbox = Sandbox(tier=SeatbeltTier(program), clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match=r"\(seatbelt\) leaks here: a command could") as refused:
        await sandbox.run(place.command("touch", "made"))
    for attempt in ("write outside the workspace", "reach a listener on this machine", "connect to a UNIX socket"):
        assert attempt in refused.value.message
    assert not (place.root / "made").exists()
    await sandbox.close()


async def test_a_command_runs_under_the_profile_of_its_confinement(runner: Sandbox, place: Place) -> None:
    written = place.root / "profile"
    environment = {"PATH": "/usr/bin:/bin", "PROFILE_IN": str(written)}
    argv = ("sh", "-c", 'pwd; echo "$1"; echo $TMPDIR; exit 3', "x", "a  b")
    done = await finished(runner, place, *argv, environment=environment)
    where, word, temporary = done.output.text().splitlines()
    assert (done.exit_code, where, word) == (3, str(place.root), "a  b")
    assert not os.path.exists(temporary)
    read = Profile(written.read_text())
    assert read.may_write(f"{place.root}/a")
    assert read.may_write(f"{temporary}/a")
    assert not read.may_write(f"{place.root}/.git/config")
    assert not read.may_write(f"{sys.prefix}/lib/x")
    # As long as this gap is there it is told.
    is_listed = any(sentence.startswith("protected names deeper in a root") for sentence in runner.not_covered)
    assert is_listed is read.may_write(f"{place.root}/sub/.git/config") is True


async def test_its_limits_of_time_and_file_size_are_set(runner: Sandbox, place: Place) -> None:
    limits = CommandLimits(cpu_s=7, file_bytes=1 << 20)
    done = await finished(runner, place, "sh", "-c", "ulimit -t; ulimit -f; ulimit -c", limits=limits)
    assert done.output.text().split() == ["7", "2048", "0"]


@each_row("argv, code", [(("no-such-program",), 127), (("./plain",), 126), (("sh", "-c", "kill -9 $$"), 137)])
async def test_exit_codes_are_those_of_a_shell(argv: tuple[str, ...], code: int) -> None:
    with TemporaryDirectory() as folder:
        tier = GroupTier()
        sandbox = Sandbox(tier=tier, clock=SystemClock())
        place = Place(Path(folder))
        (place.root / "plain").touch(0o600)
        command = place.command(*argv)
        command = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
        done = await sandbox.run(command, timeout_s=HANG_S)
        await sandbox.close()
    assert done.exit_code == code


async def test_a_kill_ends_all_that_it_started_also_what_has_left_its_group(runner: Sandbox, place: Place) -> None:
    child = "import os, sys, time\nos.setsid()\nprint('up', flush=True)\ntime.sleep(600)"
    script = f'{sys.executable} -c "$1" {place.tag} & wait'
    running = await runner.start(place.command("bash", "-c", script, place.tag, child))
    await until(lambda: b"up" in running.take().head)
    assert place.survivors()
    done = await running.kill()
    assert done.ended == "killed"
    await until(lambda: not place.survivors())


async def test_what_goes_on_in_its_group_ends_with_the_command(runner: Sandbox, place: Place) -> None:
    done = await finished(runner, place, "sh", "-c", f"sh -c 'sleep 600; : {place.tag}' >/dev/null 2>&1 & exit 0")
    assert done.exit_code == 0
    await until(lambda: not place.survivors())


def test_what_may_outlive_a_command_is_said() -> None:
    """A daemon that has left both, as this one does, is found by nothing that macOS has."""
    assert "setsid" in DAEMON
    assert any("outlives its command" in sentence for sentence in SeatbeltTier.not_covered)
    assert any("outlives its command" in sentence for sentence in GroupTier().not_covered)


async def test_a_terminal_is_the_commands_own(runner: Sandbox, place: Place) -> None:
    running = await runner.start(place.command("sh", "-c", "tty && : < /dev/tty && echo own", terminal=TerminalSize()))
    done = await running.wait(HANG_S)
    assert done is not None
    assert done.output.text().split()[-1] == "own"


async def test_input_and_errors_have_streams_of_their_own(runner: Sandbox, place: Place) -> None:
    errors: list[bytes] = []
    running = await runner.start(place.command("sh", "-c", "cat; echo no >&2", stdin=b"in"), None, errors.append)
    done = await running.wait(HANG_S)
    assert done is not None
    assert (done.output.text(), b"".join(errors)) == ("in", b"no\n")


async def test_a_list_of_hosts_is_refused_and_nothing_runs(runner: Sandbox, place: Place) -> None:
    command = place.command("touch", "made")
    command = replace(
        command, confinement=replace(command.confinement, network=HostRules(("a.example",))), gate=object()
    )
    with pytest.raises(SandboxError, match="hosts by name need bubblewrap"):
        await runner.run(command)
    assert not (place.root / "made").exists()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where directories of commands are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def test_a_program_that_looks_like_an_option_is_refused_and_leaves_nothing(
    runner: Sandbox, place: Place, temporary: Path
) -> None:
    assert not list(temporary.iterdir())
    with pytest.raises(InvalidParamsError, match="'-c' is no program"):
        await runner.start(place.command("-c", "touch made"))
    assert not list(temporary.iterdir())
    assert not (place.root / "made").exists()


async def test_a_command_that_cannot_be_started_leaves_nothing(
    place: Place, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a directory that is its own holds files by then."""
    monkeypatch.setattr(seatbelt_tier, "_SHELL", str(place.root / "no-shell"))
    own = temporary / "own"
    own.mkdir()
    (own / "file").touch()
    command = replace(place.command("true"), temporary=(str(own),))
    command = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
    sandbox = Sandbox(tier=GroupTier(), clock=SystemClock())
    with pytest.raises(SandboxUnavailableError, match="no-shell cannot be started"):
        await sandbox.start(command)
    await sandbox.close()
    assert not list(temporary.iterdir())


@each_row(
    "system, choice, tier, sentence",
    [
        ("darwin", "auto", "seatbelt", None),
        ("darwin", "seatbelt", "seatbelt", None),
        ("darwin", "landlock", None, "landlock is of Linux"),
        ("win32", "auto", None, "on Windows run Tertulia in WSL"),
        ("linux", "seatbelt", None, "seatbelt is the sandbox of macOS"),
    ],
)
def test_each_system_has_its_tiers(system: str, choice: str, tier: str | None, sentence: str | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "platform", system)
        if system == "darwin":
            patch.setattr(seatbelt_tier, "seatbelt_problem", lambda: None)
        else:
            patch.setattr(seatbelt_tier, "seatbelt_problem", seatbelt_problem)
        outlook = availability.tier_outlook(choice)  # type: ignore[arg-type]
    assert outlook.tier == tier
    assert (sentence or "") in (outlook.message or "")
