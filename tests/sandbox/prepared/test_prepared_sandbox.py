"""Issue 21: a sandbox that was made before its command is known holds all that any other does, and serves one."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.bubblewrap import BubblewrapTier
from tertulia.sandbox.mounts.helper_client import NamespaceMounts
from tertulia.sandbox.mounts.mount_plan import MountPlan
from tertulia.sandbox.prepared import preparation, prepared_sandbox
from tertulia.sandbox.prepared.prepared_sandbox import PreparedSandbox
from tertulia.sandbox.process import CommandProcess
from tertulia.sandbox.runner import Command, CommandLimits, CommandResult
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S
from tests.sandbox.confined import DEADLINE_S, ROOT, Place, counted_uses, need, waiting_sandbox


class Prepared:
    """A sandbox in which one waits before each command, and those that were used."""

    def __init__(self, place: Place, sandbox: Sandbox, used: list[PreparedSandbox]) -> None:
        self.place, self.sandbox, self.used = place, sandbox, used

    async def wait(self) -> PreparedSandbox:
        await self.sandbox.run(self.place.command("true"), timeout_s=DEADLINE_S)
        return await waiting_sandbox(self.sandbox)

    async def run(self, command: Command) -> CommandResult:
        return await self.sandbox.run(command, timeout_s=DEADLINE_S)

    async def script(self, text: str) -> str:
        return (await self.run(self.place.command("sh", "-c", text))).output.text()


@pytest.fixture
async def prepared(place: Place, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Prepared]:
    # What other tests mount meanwhile would make it stale.
    monkeypatch.setattr(prepared_sandbox, "_MOUNTS", os.devnull)
    with counted_uses() as used:
        yield Prepared(place, sandbox, used)


def processes_of(waiting: PreparedSandbox) -> list[int]:
    namespaces = waiting._namespaces
    return [namespaces.outer.pid, namespaces.first_pid]


def are_gone(pids: list[int]) -> bool:
    """Or only wait to be buried by the machine's first process."""
    stats = [Path(f"/proc/{pid}/stat") for pid in pids]
    return all(not stat.exists() or stat.read_text().rpartition(") ")[2][0] == "Z" for stat in stats)


# ---- the command is what it would be otherwise


async def test_a_command_begins_in_it_with_its_own_directory_environment_and_streams(prepared: Prepared) -> None:
    place, outcomes = prepared.place, list[tuple[int, str]]()
    (place.root / "in").mkdir()
    command = replace(
        place.command("sh", "-c", "pwd; env | sort; ls /proc/self/fd; cat; echo $$; exit 3", stdin=b"given\n"),
        cwd=str(place.root / "in"),
        environment={"PATH": "/usr/bin:/bin", "A B": "c=d", "TMPDIR": "/elsewhere", "É": "ü\udcff"},
    )
    for _ in range(2):
        finished = await prepared.run(command)
        outcomes.append((finished.exit_code, finished.output.text()))
        await waiting_sandbox(prepared.sandbox)
    assert len(prepared.used) == 1
    assert outcomes[0] == outcomes[1]
    assert "given\n" in outcomes[1][1]
    assert "TMPDIR=/tmp\n" in outcomes[1][1]


@pytest.mark.parametrize("argv", [("no-such-program",), ("/etc/passwd",), ("./script", "a b"), ("./missing",), ("",)])
async def test_what_cannot_be_executed_is_told_in_the_same_way(prepared: Prepared, argv: tuple[str, ...]) -> None:
    (prepared.place.root / "script").write_text('echo "ran $1"')
    (prepared.place.root / "script").chmod(0o755)
    if not argv[0]:
        argv = (str(prepared.place.root),)
    plain = await prepared.run(prepared.place.command(*argv))
    await prepared.wait()
    finished = await prepared.run(prepared.place.command(*argv))
    assert len(prepared.used) >= 1
    assert (finished.exit_code, finished.output, finished.ended) == (plain.exit_code, plain.output, plain.ended)


@pytest.mark.parametrize("of_parent", [signal.SIG_DFL, signal.SIG_IGN], ids=["", "where the parent ignores one"])
async def test_signals_are_answered_as_usual(prepared: Prepared, of_parent: signal.Handlers) -> None:
    before = signal.signal(signal.SIGTSTP, of_parent)
    try:
        usual = await prepared.script("grep Sig /proc/self/status")
        await waiting_sandbox(prepared.sandbox)
        assert len(prepared.used) == 0
        assert await prepared.script("grep Sig /proc/self/status") == usual
        assert len(prepared.used) == 1
    finally:
        signal.signal(signal.SIGTSTP, before)
    ignored = int(re.search(r"SigIgn:\s*(\w+)", usual)[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1), "what Python ignores for itself"
    assert bool(ignored & 1 << signal.SIGTSTP - 1) is (of_parent is signal.SIG_IGN)


async def test_errors_come_apart_and_input_is_kept_open(prepared: Prepared) -> None:
    await prepared.wait()
    out, errors = bytearray(), bytearray()
    command = prepared.place.command("sh", "-c", "read a; echo $a; echo no >&2", keep_stdin=True)
    running = await prepared.sandbox.start(command, out.extend, errors.extend)
    await running.write(b"yes\n")
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert (finished.exit_code, bytes(out), bytes(errors), len(prepared.used)) == (0, b"yes\n", b"no\n", 1)


# ---- and so is what it may do


async def test_what_appears_after_it_was_made_is_protected_and_masked(prepared: Prepared) -> None:
    """A4, A14: a repository, a startup file and a secret that were not there when it was made."""
    place = prepared.place
    secret = place.root.parent / "secret"
    confinement = replace(place.command("x").confinement, masked=(str(secret),))
    await prepared.run(place.command("true", confinement=confinement))
    await waiting_sandbox(prepared.sandbox)
    (place.root / "vendor" / ".git" / "hooks").mkdir(parents=True)
    (place.root / ".bashrc").write_text("mine")
    (place.root / ".mcp.json").write_text("{}")
    secret.write_text("canary")
    script = f"for f in vendor/.git/hooks/x .bashrc .mcp.json .git/x; do echo bad > $f; done; cat {secret}"
    finished = await prepared.run(place.command("sh", "-c", script, confinement=confinement))
    assert len(prepared.used) == 1
    assert finished.output.text().count("Read-only file system") == 4
    assert "canary" not in finished.output.text()
    assert list((place.root / "vendor" / ".git" / "hooks").iterdir()) == []
    assert (place.root / ".bashrc").read_text() == "mine"
    assert (place.root / ".mcp.json").read_text() == "{}"


async def test_a7_a_root_that_was_replaced_meanwhile_is_not_entered_by_the_old_one(prepared: Prepared) -> None:
    """A7: the sandbox that holds the old directory ends unused."""
    waiting = await prepared.wait()
    root = prepared.place.root
    root.rename(root.with_name("old"))
    root.mkdir()
    assert await prepared.script("echo new > file; ls -A | grep -v '^[.]'") == "file\n"
    assert (root / "file").read_text() == "new\n"
    assert list(root.with_name("old").iterdir()) == []
    await prepared.place.until(lambda: waiting._waits_no_longer)
    assert prepared.used == []
    root.rename(root.with_name("third"))
    root.symlink_to(root.with_name("old"))
    with pytest.raises(SandboxError, match=r"workspace cannot be opened: Not a directory"):
        await prepared.script("echo bad > file")
    assert list(root.with_name("old").iterdir()) == []


@pytest.mark.parametrize(
    "narrower",
    [
        {"mode": "read_only"},
        {"network": True},
        {"writable_roots": ()},
        {"limits": CommandLimits(processes=17)},
        {"limits": CommandLimits(memory_bytes=1 << 30)},
    ],
)
async def test_other_rights_get_a_sandbox_of_their_own(prepared: Prepared, narrower: dict) -> None:
    await prepared.wait()
    confinement = replace(prepared.place.command("x").confinement, **narrower)
    finished = await prepared.run(prepared.place.command("sh", "-c", "echo x > file", confinement=confinement))
    assert prepared.used == []
    assert (finished.exit_code == 0) is ("limits" in narrower or "network" in narrower)


async def test_a15_nothing_of_one_command_reaches_the_next(prepared: Prepared) -> None:
    """A15, A16: each is used once."""
    await prepared.wait()
    first = prepared.place.command("sh", "-c", "echo x > /tmp/left; echo $A", environment={"PATH": "/bin", "A": "one"})
    assert (await prepared.run(first)).output.text() == "one\n"
    await waiting_sandbox(prepared.sandbox)
    text = await prepared.script("echo [$A]; cat /tmp/left; ls /proc/self/fd | wc -l; ls /proc | grep -c '^[0-9]'")
    assert [text.splitlines()[0], *text.splitlines()[-2:]] == ["[]", "4", "4"]
    assert "/tmp/left: No such file" in text
    assert len({*prepared.used}) == 2


async def test_the_limits_of_the_kernel_hold_in_it(prepared: Prepared) -> None:
    """A19"""
    limits = CommandLimits(file_bytes=10_000, cpu_s=5)
    await prepared.run(prepared.place.command("true", limits=limits))
    await waiting_sandbox(prepared.sandbox)
    command = prepared.place.command("sh", "-c", "ulimit -f -t -c; head -c 20000 /dev/zero > big", limits=limits)
    finished = await prepared.run(command)
    assert len(prepared.used) == 1
    assert finished.limit == "file_bytes"
    assert (prepared.place.root / "big").stat().st_size <= 10_000


# ---- it goes


async def test_it_ends_with_its_sandbox(place: Place) -> None:
    need("bubblewrap")
    sandbox = Sandbox(clock=SystemClock())
    await sandbox.run(place.command("true"), timeout_s=DEADLINE_S)
    waiting = await waiting_sandbox(sandbox)
    pids = processes_of(waiting)
    assert not are_gone(pids)
    await sandbox.close()
    assert are_gone(pids)


async def test_one_that_is_not_ready_yet_ends_with_its_sandbox_too(place: Place) -> None:
    need("bubblewrap")
    sandbox = Sandbox(clock=SystemClock())
    await sandbox.run(place.command("true"), timeout_s=DEADLINE_S)
    await place.until(lambda: sandbox._tier._preparation._waiting)
    waiting = sandbox._tier._preparation._waiting
    await sandbox.close()
    assert are_gone([pid for pid in processes_of(waiting) if pid])
    assert waiting._waits_no_longer


async def test_it_does_not_wait_for_long(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle session has none."""
    monkeypatch.setattr(prepared_sandbox, "WAITS_S", 0)
    await prepared.run(prepared.place.command("true"))
    await prepared.place.until(lambda: prepared.sandbox._tier._preparation._there)
    await prepared.place.until(lambda: not prepared.sandbox._tier._preparation._there)
    assert prepared.used == []


async def test_one_that_is_old_is_not_used(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    await prepared.wait()
    monkeypatch.setattr(prepared_sandbox, "_SAFELY_S", 0)
    assert await prepared.script("echo fresh") == "fresh\n"
    assert prepared.used == []


async def test_one_that_was_killed_is_not_used_and_takes_no_command_with_it(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await prepared.wait()
    os.kill(waiting._namespaces.first_pid, signal.SIGKILL)
    # Without the loop, which would hear of it.
    select.select(waiting._namespaces.processes, [], [], HANG_S)
    assert await prepared.script("echo fresh") == "fresh\n"
    assert prepared.used == []


async def _die_in_use(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> CommandProcess:
    """A command for which all is ready but the plan of its mounts, when the sandbox that it was given to dies."""
    waiting = await prepared.wait()
    with monkeypatch.context() as patch:
        patch.setattr(NamespaceMounts, "_send_plan", lambda mounts: None)
        command = prepared.place.command("sh", "-c", "cat; touch ran; echo no >&2", stdin=b"given\n")
        running = await prepared.sandbox.start(command)
        os.kill(waiting._namespaces.first_pid, signal.SIGKILL)
        await prepared.place.until(lambda: waiting._namespaces.first is None)
    return running


async def test_a_command_whose_prepared_sandbox_dies_gets_another_and_runs_once(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the moment in which it is used nothing can be seen of it yet; nothing of the command ran then."""
    before = len(os.listdir("/proc/self/fd"))
    running = await _die_in_use(prepared, monkeypatch)
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert (finished.ended, finished.exit_code, finished.output.text()) == ("exited", 0, "given\nno\n")
    assert [path.name for path in prepared.place.root.iterdir()] == ["ran"]
    assert len(prepared.used) == 1
    await prepared.sandbox.close()
    await prepared.place.until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def test_where_there_can_be_no_other_sandbox_it_is_told_that_nothing_ran(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    await prepared.wait()
    monkeypatch.setattr(BubblewrapTier, "_start", refuse)
    running = await _die_in_use(prepared, monkeypatch)
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert (finished.ended, finished.reason) == ("not_started", "the sandbox cannot be started: Too many open files")
    assert list(prepared.place.root.iterdir()) == []


async def test_a_command_that_is_killed_with_its_prepared_sandbox_is_not_started_again(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await _die_in_use(prepared, monkeypatch)
    finished = await running.kill()
    assert finished.ended == "killed"
    assert list(prepared.place.root.iterdir()) == []


async def test_one_that_is_killed_before_all_is_mounted_never_begins(prepared: Prepared) -> None:
    await prepared.wait()
    running = await prepared.sandbox.start(prepared.place.command("touch", "ran", prepared.place.tag))
    finished = await running.kill()
    assert (finished.ended, len(prepared.used)) == ("killed", 1)
    assert list(prepared.place.root.iterdir()) == []
    assert prepared.place.survivors() == []


async def test_what_refuses_a_command_refuses_it_there(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2, S3: the reason is told, and the program that waited is no command."""
    await prepared.wait()

    def refuse(mounts: MountPlan) -> bytes:
        raise SandboxError("too many directories")

    monkeypatch.setattr(MountPlan, "plan", refuse)
    with pytest.raises(SandboxError, match="was not run: too many directories"):
        await prepared.script("touch ran")
    assert len(prepared.used) == 1
    assert list(prepared.place.root.iterdir()) == []


async def test_a_command_that_runs_for_long_keeps_none_from_being_prepared(prepared: Prepared) -> None:
    running = await prepared.sandbox.start(prepared.place.command("cat", keep_stdin=True))
    await prepared.wait()
    assert await prepared.script("echo quick") == "quick\n"
    assert (len(prepared.used), running.finished) == (1, None)
    await running.kill()


async def test_only_so_many_wait_in_a_process(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "_slots", threading.BoundedSemaphore(1))
    await prepared.wait()
    other = Sandbox(clock=SystemClock())
    await other.run(prepared.place.command("true"), timeout_s=DEADLINE_S)
    await prepared.place.until(lambda: not other._tier._preparation._timer.when() > asyncio.get_running_loop().time())
    await asyncio.sleep(0)
    assert other._tier._preparation._there == set()
    await other.close()
    await prepared.sandbox.close()
    assert preparation._slots.acquire(blocking=False)


async def test_where_none_can_be_had_it_is_not_tried_for_ever(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_sandbox, "WAIT", "not Python")
    tries = prepared.sandbox._tier._preparation
    for number in (1, 2):
        await prepared.script("true")
        await prepared.place.until(lambda number=number: tries._failures == number)
    await prepared.script("true")
    assert (tries._timer, tries._there, prepared.used) == (None, set(), [])


HASTY = """
import asyncio, os, signal, sys
from pathlib import Path
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import Place, waiting_sandbox

async def main(folder):
    place, sandbox = Place(Path(folder)), Sandbox(clock=SystemClock())
    await sandbox.run(place.command("true"))
    waiting = await waiting_sandbox(sandbox)
    print(waiting._namespaces.outer.pid, waiting._namespaces.first_pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""


async def test_a18_it_dies_with_a_product_that_is_killed(place: Place) -> None:
    """A18"""
    need("bubblewrap")
    (place.root / "inner").mkdir()
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    line = [sys.executable, "-c", HASTY, str(place.root / "inner")]
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ran.returncode == -9
    pids = [int(pid) for pid in ran.stdout.split()]
    assert len(pids) == 2
    await place.until(lambda: are_gone(pids))
