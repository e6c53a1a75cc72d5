"""L5: programs outside any sandbox, in a namespace of processes that the kernel ends; with real trees, real kills."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tertulia
from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.launcher import launched_process, process_namespace
from tertulia.sandbox.launcher.landlock_tier import LandlockTier
from tertulia.sandbox.launcher.process_namespace import NamespaceSupport
from tertulia.sandbox.process_tree import children, descendants
from tertulia.sandbox.runner import Command, CommandResult
from tertulia.sandbox.sandbox import Sandbox
from tertulia.sandbox.tier import Namespace, Streams
from tests.sandbox.confined import DEADLINE_S, NOBODY, ROOT, Place, need, ordinary_python, tagged
from tests.sandbox.kept import above, is_running

PRODUCT = """
import asyncio, json, sys
from tertulia.events.clock import SystemClock
from tertulia.executors.command.command_executor import CommandExecutor
from tertulia.executors.executor import ProgramServices
from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.executor import Assignment
from tertulia.executors.command.command_executor import PlainText
from tertulia.mcp.config.launch import resolve_launch
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.mcp.client.stdio_transport import StdioTransport
from tertulia.policy.rights import TOP
from tertulia.sandbox.launcher import launched_process as launched
from tertulia.sandbox.sandbox import Sandbox
from msgspec.structs import replace
from tests.sandbox.confined import DAEMON, tagged
from tests.sandbox.kept import above

launched._CODE = sys.argv[2] + launched._CODE

async def main(tag):
    sandbox, tasks = Sandbox(clock=SystemClock()), []
    spawn = lambda work, name: tasks.append(asyncio.ensure_future(work))
    line = [sys.executable, "-I", "-S", "-c", DAEMON]
    table = {"command": line[0], "args": [*line[1:], tag + "server"]}
    definition = server_from_wire("daemon", table, origin="user")
    launch = resolve_launch(definition, {"PATH": "/usr/bin:/bin"}, "/")
    transport = StdioTransport(definition, launch, runner=sandbox, spawn=spawn, lost=print)
    await transport.__aenter__()
    definition = ExecutorDefinition(command=(*line, tag + "agent"), sandbox={"read_only": ()})
    services = ProgramServices(sandbox, {"PATH": "/usr/bin:/bin"}, spawn)
    agent = CommandExecutor("agent", definition, lambda total: PlainText(), services)
    async def work():
        async for step in agent.run(Assignment("do", "/", rights=replace(TOP, sandbox="read_only"))):
            print(step, file=sys.stderr)
    spawn(work(), "agent")
    while not all(len(tagged(tag + one)) >= 2 for one in ("server", "agent")):
        await asyncio.sleep(0)
    print(json.dumps(above(sandbox._unconfined._launcher)), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""
REFUSES = """
import sys
sys.path.insert(0, {source!r})
from tertulia.sandbox.launcher import process_namespace
process_namespace._attempt = lambda kind: "not on this machine"
"""
"""Before the launcher's own code: the kernel has no namespace for it."""
NONE_LEFT = """
import sys
sys.path.insert(0, {source!r})
from tertulia.sandbox.launcher import process_namespace
process_namespace._attempt = lambda kind: ""
def refuse(kind): raise process_namespace._Refused(28, "No space left on device")
process_namespace._leave = refuse
"""
HALF = NONE_LEFT.replace("_Refused(28", "OSError(28").replace("process_namespace.OSError", "OSError")


class Storm:
    """A product with an MCP server and an agent, each with a daemon; close it, and what it left is killed."""

    def __init__(self, *, user: int | None = None, code: str = "") -> None:
        self._tag = f"tag{os.urandom(6).hex()}"
        packages = [str(Path(tertulia.__file__).parents[1]), str(ROOT), *(p for p in sys.path if "packages" in p)]
        options: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        python = sys.executable if user is None else ordinary_python()
        self._product = subprocess.Popen(
            [str(python), "-c", PRODUCT, self._tag, code], stdout=subprocess.PIPE, cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(packages), "PYTHONDONTWRITEBYTECODE": "1"}, **options,
        )  # fmt: skip
        assert self._product.stdout is not None
        self.guardian, self.launcher = json.loads(self._product.stdout.readline())
        self.keepers = children(self.launcher)
        until = SystemClock().monotonic() + DEADLINE_S
        # One that is just being executed has no arguments at all.
        while len(self.left()) < 4 and SystemClock().monotonic() < until:
            pass

    def left(self) -> list[int]:
        """Who carries the tag, the product left out."""
        return [pid for pid in tagged(self._tag) if pid != self._product.pid and is_running(pid)]

    def sweep(self, *spared: int, within_s: float = DEADLINE_S) -> list[int]:
        """SIGKILL to all of ours at once but these; who of theirs is left after a while."""
        # Held first, so that none has a moment between the death of another and its own.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (self._product.pid, self.guardian, self.launcher, *self.keepers):
                if pid not in spared:
                    os.kill(pid, number)
        until = SystemClock().monotonic() + within_s
        while (left := self.left()) and SystemClock().monotonic() < until:
            pass
        return left

    def close(self) -> None:
        self._product.kill()
        self._product.wait()
        self._product.stdout.close()  # type: ignore[union-attr]
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("user", [None, NOBODY], ids=["as we are", "ordinary user"])
def test_l5_daemons_end_when_all_of_ours_are_killed_at_once(user: int | None) -> None:
    """L5: of an MCP server and of an executor; product, keepers, launcher and guardian die in one sweep."""
    _need_namespace(user)
    storm = Storm(user=user)
    try:
        assert len(storm.left()) >= 4
        assert storm.sweep() == []
    finally:
        storm.close()


def test_l5_without_a_namespace_one_of_ours_that_is_left_ends_the_tree() -> None:
    """L5: as before."""
    storm = Storm(code=REFUSES.format(source=str(ROOT / "src")))
    try:
        assert len(storm.left()) >= 4
        assert storm.sweep(*storm.keepers) == []
    finally:
        storm.close()


@pytest.mark.torture
def test_l5_without_a_namespace_and_with_none_of_ours_left_it_goes_on() -> None:
    """L5: which is what doctor says; so the sweep above finds something where there is no namespace."""
    storm = Storm(code=REFUSES.format(source=str(ROOT / "src")))
    try:
        assert len(storm.sweep(within_s=2.0)) >= 4
    finally:
        storm.close()


def _need_namespace(user: int | None) -> None:
    if user is not None and ordinary_python() is None:
        pytest.skip("no Python here that an ordinary user can run with our packages")
    code = "import tertulia.sandbox.launcher.process_namespace as n; print(*n.find_namespace_support(confines=False))"
    python = sys.executable if user is None else str(ordinary_python())
    options: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    text = subprocess.run(
        [python, "-c", code], env={"PYTHONPATH": str(ROOT / "src")}, cwd="/", capture_output=True, text=True,
        timeout=DEADLINE_S, check=True, **options,
    ).stdout.strip()  # fmt: skip
    if not text.startswith(("processes", "users")):
        pytest.skip(f"no namespace of processes here: {text}")


# ---- in it


@pytest.fixture
def alone(place: Place) -> Any:
    """A command outside any sandbox, in a namespace or not."""

    def made(*argv: str, pid_namespace: bool = True, **fields: Any) -> Command:
        command = place.command(*argv, pid_namespace=pid_namespace, **fields)
        return replace(command, confinement=replace(command.confinement, mode="danger_full_access"))

    return made


async def ran(command: Command) -> CommandResult:
    sandbox = Sandbox(clock=SystemClock())
    try:
        return await sandbox.run(command, timeout_s=DEADLINE_S)
    finally:
        await sandbox.close()


@pytest.mark.parametrize(
    "argv",
    [
        ("sh", "-c", "exit 7"),
        ("sh", "-c", "kill -TERM $$"),
        ("sh", "-c", "kill -KILL $$"),
        ("sh", "-c", "kill -SEGV $$"),
        ("/no/such/program",),
        ("/etc/passwd",),
    ],
)
async def test_l5_a_program_ends_as_it_does_elsewhere(alone: Any, argv: tuple[str, ...]) -> None:
    """L5: codes, signals, and what cannot be executed."""
    _need_namespace(None)
    within, without = await ran(alone(*argv)), await ran(alone(*argv, pid_namespace=False))
    assert (within.exit_code, within.reason) == (without.exit_code, without.reason)


async def test_l5_it_is_asked_to_end_and_its_daemons_with_it(place: Place, alone: Any) -> None:
    """L5: SIGTERM reaches the program itself, which may answer; a daemon that does not is killed."""
    _need_namespace(None)
    sandbox = Sandbox(clock=SystemClock())
    daemon = f"(setsid sh -c 'trap \"\" TERM; echo up; sleep 600; :' {place.tag} &)"
    # The trap first: once the daemon says that it is up, the signal may come.
    script = f"trap 'exit 9' TERM; {daemon}; while :; do sleep 0.01; done"
    running = await sandbox.start(alone("sh", "-c", script, place.tag))
    await place.until(lambda: b"up" in running._all.output().head)
    running.terminate()
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert (finished.exit_code, place.survivors()) == (9, [])
    await sandbox.close()


async def test_l5_it_meets_its_own_processes_alone_and_the_same_machine(place: Place, alone: Any) -> None:
    """L5: numbers are those of its own /proc; files, directory and groups are what they were."""
    _need_namespace(None)
    code = """
import os
seen = sorted(name for name in os.listdir("/proc") if name.isdigit())
print(os.getpid(), os.getppid(), seen, os.readlink("/proc/self"), os.getcwd(), os.getuid(), os.getgroups())
"""
    text = (await ran(alone(sys.executable, "-I", "-S", "-c", code))).output.text()
    assert text.strip() == f"2 0 ['1', '2'] 2 {place.root} {os.getuid()} {os.getgroups()}"
    whole = (await ran(alone("sh", "-c", "ls /proc | grep -c '^[0-9]'", pid_namespace=False))).output.text()
    assert int(whole) > 4


async def test_l5_full_access_and_a_persons_terminal_are_not_in_one(alone: Any) -> None:
    """L5: such a command ends whatever the user may end."""
    text = (await ran(alone("sh", "-c", "readlink /proc/self/ns/pid", pid_namespace=False))).output.text()
    assert text.strip() == os.readlink("/proc/self/ns/pid")
    request = launched_process._request(alone("true", inherit_stdio=True), {})
    assert request["pid_namespace"] is False


async def test_s8_it_leaves_no_zombies(place: Place, alone: Any) -> None:
    """S8: its first process buries what is orphaned there."""
    _need_namespace(None)
    sandbox = Sandbox(clock=SystemClock())
    running = await sandbox.start(
        alone("sh", "-c", "for i in 1 2 3 4 5; do (sh -c ': &'); done; echo made; sleep 600", place.tag)
    )
    await place.until(lambda: b"made" in running._all.output().head)
    _, launcher = above(sandbox._unconfined._launcher)
    await place.until(lambda: all(threads for _, threads in descendants(launcher)))
    await sandbox.close()


async def test_l5_a_first_process_that_is_killed_ends_all_of_it(place: Place, alone: Any) -> None:
    _need_namespace(None)
    sandbox = Sandbox(clock=SystemClock())
    running = await sandbox.start(alone("sh", "-c", "echo up; sleep 600; :", place.tag))
    await place.until(lambda: b"up" in running._all.output().head)
    _, launcher = above(sandbox._unconfined._launcher)
    (first,) = [both[0] for both in map(children, children(launcher)) if len(both) == 2]
    os.kill(first, signal.SIGKILL)
    finished = await running.wait(DEADLINE_S)
    assert finished is not None
    assert finished.exit_code == 128 + signal.SIGKILL
    await sandbox.close()


# ---- where it cannot be had


def _with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(launched_process, "_CODE", code.format(source=str(ROOT / "src")) + launched_process._CODE)
    monkeypatch.setattr(launched_process, "_found", {})


async def test_l5_where_it_is_refused_nothing_changes_and_it_is_told(
    alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with(monkeypatch, REFUSES)
    sandbox = Sandbox(clock=SystemClock())
    assert sandbox._unconfined.not_covered[1].endswith("same moment")
    finished = await sandbox.run(alone("readlink", "/proc/self/ns/pid"), timeout_s=DEADLINE_S)
    assert finished.output.text().strip() == os.readlink("/proc/self/ns/pid")
    assert sandbox._unconfined.namespace == Namespace("", "not on this machine")
    assert sandbox._unconfined.not_covered[1].endswith("(not on this machine)")
    await sandbox.close()


async def test_l5_when_the_kernel_has_none_left_it_runs_as_before(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _with(monkeypatch, NONE_LEFT)
    finished = await ran(alone("readlink", "/proc/self/ns/pid"))
    assert finished.output.text().strip() == os.readlink("/proc/self/ns/pid")


async def test_l5_half_of_a_namespace_is_none_and_nothing_runs(
    place: Place, alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with(monkeypatch, HALF)
    with pytest.raises(SandboxError, match="No space left on device"):
        await ran(alone("touch", "ran"))
    assert list(place.root.iterdir()) == []


def test_l5_who_gets_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """L5: root never one of users; a program never one in which its ssh would stop."""
    monkeypatch.setattr(process_namespace, "_attempt", lambda kind: "" if kind == "users" else "no")
    monkeypatch.setattr(process_namespace, "_SSH_SETTINGS", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert process_namespace.find_namespace_support(confines=False) == NamespaceSupport("", "no")
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert process_namespace.find_namespace_support(confines=False) == NamespaceSupport("users")
    (tmp_path / "20-proxy.conf").touch()
    found = process_namespace.find_namespace_support(confines=False)
    assert not found.kind
    assert "ssh would refuse" in found.why_not
    assert process_namespace.find_namespace_support(confines=True) == NamespaceSupport("users")


async def test_l5_a_command_in_landlock_is_in_one(place: Place) -> None:
    """L5: and has no more rights by it."""
    _need_namespace(None)
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    script = "echo $$; grep Cap /proc/self/status; kill -0 1 2>/dev/null"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    await sandbox.close()
    number, *capabilities = finished.output.text().splitlines()
    assert number == "2"
    assert {line.split()[1] for line in capabilities if not line.startswith("CapBnd")} == {"0" * 16}
    assert finished.exit_code == 1


# ---- made before there is a request


async def _landlock(place: Place) -> Sandbox:
    """One that has run a command, so that its launcher is there."""
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    await sandbox.run(place.command("true"), timeout_s=DEADLINE_S)
    return sandbox


def _inside(above_them: int) -> set[int]:
    """The processes below that stand in another pid namespace than we do."""
    ours, found = os.readlink("/proc/self/ns/pid"), set[int]()
    for pid, _ in descendants(above_them):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != ours:
                found.add(pid)
        except OSError:
            continue
    return found


def _all_wait(launcher: int) -> bool:
    """Whether each keeper has the first process of a namespace and one that becomes a command there.

    There are two keepers, or three: one more is forked where a command comes before the keeper of the last is ready.
    """
    keepers = children(launcher)
    return len(keepers) >= 2 and all(len(_inside(keeper)) == 2 for keeper in keepers)


async def test_l5_a_command_in_landlock_waits_for_no_namespace_and_none_serves_twice(place: Place) -> None:
    """L5: the process that takes the request stands in one before; each command finds itself alone there."""
    _need_namespace(None)
    sandbox = await _landlock(place)
    _, launcher = above(sandbox._tier._launcher)
    await place.until(lambda: _all_wait(launcher))
    waiting = _inside(launcher)
    running = await sandbox.start(place.command("sh", "-c", "echo up; read word", keep_stdin=True))
    await place.until(lambda: b"up" in running._all.output().head)
    assert waiting <= _inside(launcher), "it became the command, and nothing else was started for it"
    running.close_stdin()
    await running.wait(DEADLINE_S)
    for _ in range(4):
        finished = await sandbox.run(place.command("sh", "-c", "echo $$; (sleep 600 &)"), timeout_s=DEADLINE_S)
        assert finished.output.text() == "2\n"
    await sandbox.close()


async def test_l5_those_that_wait_end_when_all_of_ours_are_killed_at_once(place: Place) -> None:
    _need_namespace(None)
    sandbox = await _landlock(place)
    guardian, launcher = above(sandbox._tier._launcher)
    await place.until(lambda: _all_wait(launcher))
    below, keepers = [pid for pid, _ in descendants(guardian)], children(launcher)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (guardian, launcher, *keepers):
            os.kill(pid, number)
    await place.until(lambda: not any(map(is_running, below)))
    assert (await sandbox.run(place.command("echo", "again"), timeout_s=DEADLINE_S)).output.text() == "again\n"
    await sandbox.close()


async def test_l5_a_burst_of_commands_waits_for_no_namespace_of_another(place: Place) -> None:
    """L5: a request that is there already is taken first, and its namespace made then."""
    _need_namespace(None)
    sandbox = await _landlock(place)
    script = "echo $$; grep CapEff /proc/self/status"
    many = [sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S) for _ in range(12)]
    words = {tuple(finished.output.text().split()) for finished in await asyncio.gather(*many)}
    assert words == {("2", "CapEff:", "0" * 16)}
    await sandbox.close()


async def test_l5_in_landlock_none_left_changes_nothing_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _with(monkeypatch, NONE_LEFT)
    sandbox = await _landlock(place)
    script = "readlink /proc/self/ns/pid; grep CapEff /proc/self/status"
    finished = await sandbox.run(place.command("sh", "-c", script), timeout_s=DEADLINE_S)
    assert finished.output.text().split() == [os.readlink("/proc/self/ns/pid"), "CapEff:", "0" * 16]
    await sandbox.close()


async def test_l5_in_landlock_half_of_one_is_told_to_whom_it_concerns(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: it failed before the request came, and the request is answered with it."""
    need("landlock")
    _with(monkeypatch, HALF)
    tier = LandlockTier()
    ended = asyncio.get_running_loop().create_future()
    with open(os.devnull, "r+b") as nothing:
        streams = Streams(nothing.fileno(), nothing.fileno(), nothing.fileno())
        tier.spawn(place.command("touch", "ran"), streams, ended.set_result)
        ending = await asyncio.wait_for(ended, DEADLINE_S)
    assert (ending.began, ending.reason) == (False, "No space left on device")
    assert list(place.root.iterdir()) == []
    tier.close()
