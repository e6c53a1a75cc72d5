"""Who keeps the commands that go on. How they are used is tested in test_terminal.py."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.errors import InternalError, LimitError, NotFoundError, SandboxError
from tertulia.events.clock import SystemClock
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.protocol.tool_events import Decider, ExecCommandOutputDelta
from tertulia.sandbox.masks.guarded_paths import GuardedPaths
from tertulia.sandbox.runner import Command, CommandResult, Confinement, Output
from tertulia.sandbox.sandbox import Sandbox
from tertulia.tools.shell.command_approval import CommandRequest
from tertulia.tools.shell.live_command import MAX_TERMINALS, MAX_TERMINALS_IN_ALL, LiveCommand, Terminals
from tertulia.tools.shell.shell import run_command
from tests.sandbox.confined import need
from tests.tools.calling import call, context
from tests.tools.workbench import Workbench, workbench

A, B = ConversationId("a"), ConversationId("b")


class Stub:
    """Can be killed, or cannot."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.killed = False

    def listen(self, publish: Any) -> None:
        self.publish = publish

    async def kill(self) -> None:
        self.killed = True
        if self.error is not None:
            raise self.error


def stub(error: Exception | None = None) -> LiveCommand:
    return cast(LiveCommand, Stub(error))


def terminals() -> Terminals:
    return Terminals(lambda conversation, data: None)


def test_a_number_is_never_given_twice() -> None:
    terminal_table = terminals()
    first = terminal_table.keep(A, stub())
    terminal_table.drop(A, first)
    terminal_table.drop(A, first)
    second = terminal_table.keep(A, stub())
    assert first != second
    assert len(terminal_table) == 1
    with pytest.raises(NotFoundError):
        terminal_table.find(A, first)
    with pytest.raises(NotFoundError):
        terminal_table.find(B, second)


def test_one_conversation_cannot_take_the_room_of_all() -> None:
    terminal_table = terminals()
    for _ in range(MAX_TERMINALS):
        terminal_table.check_room(A)
        terminal_table.keep(A, stub())
    with pytest.raises(LimitError):
        terminal_table.check_room(A)
    terminal_table.check_room(B)
    for number in range(MAX_TERMINALS_IN_ALL - MAX_TERMINALS):
        terminal_table.keep(ConversationId(f"c{number}"), stub())
    with pytest.raises(LimitError):
        terminal_table.check_room(B)


async def test_closing_kills_all_of_them_whatever_one_does() -> None:
    """H3"""
    terminal_table = terminals()
    stubs = [stub(), stub(SandboxError("the kernel holds it")), stub()]
    for number, command_stub in enumerate(stubs):
        terminal_table.keep(A if number else B, command_stub)
    await terminal_table.close()
    assert all(cast(Stub, stub).killed for stub in stubs)
    assert len(terminal_table) == 0


async def test_a_fault_of_ours_is_not_hidden() -> None:
    terminal_table = terminals()
    terminal_table.keep(A, stub(InternalError("a fault")))
    with pytest.raises(InternalError):
        await terminal_table.forget(A)


def command(bench: Workbench, script: str) -> Command:
    confinement = bench.place.confinement(bench.rights)
    return Command(
        argv=("sh", "-c", script), cwd=str(bench.root), confinement=confinement, environment={"PATH": "/usr/bin:/bin"}
    )


ALLOWED = Decider("policy", "on-request")


async def test_it_is_told_how_a_command_is_confined(tmp_path: Path) -> None:
    """Issue 7: running outside the sandbox can be seen by everybody."""
    async with workbench(tmp_path) as bench:
        for mode in ("read_only", "workspace_write", "danger_full_access"):
            bench.with_rights("on-request", sandbox=mode)
            await (
                await LiveCommand.start(
                    bench.place.runner, command(bench, "true"), bench.context(call("shell")), ALLOWED
                )
            ).look(20)
        sandboxs = [event["sandbox"] for event in bench.events if event.type == "exec_command_begin"]
        assert sandboxs == ["read-only", "workspace-write", "danger-full-access"]


async def test_its_end_is_told_once_however_often_it_is_seen(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        live = await LiveCommand.start(
            bench.place.runner, command(bench, "exit 4"), bench.context(call("shell")), ALLOWED
        )
        assert (await live.look(20) or CommandResult).exit_code == 4
        await live.kill()
        await live.see_through(1)
        assert bench.kinds() == ["exec_command_begin", "exec_command_end"]


async def test_whom_nobody_listens_to_is_heard_by_the_next_who_looks(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        live = await LiveCommand.start(
            bench.place.runner, command(bench, "echo x"), bench.context(call("shell")), ALLOWED
        )
        live.listen(None)
        await live.look(20)
        assert bench.kinds() == ["exec_command_begin"]
        later: list[EventData] = []
        live.listen(later.append)
        await live.look(20)
        assert [event.type for event in later] == ["exec_command_end"]


async def test_output_that_comes_after_its_task_is_dropped(tmp_path: Path) -> None:
    """S002-51: a task that is over cannot be spoken for."""
    heard: list[str] = []

    def publish(event: EventData) -> None:
        heard.append(event.type)
        if isinstance(event, ExecCommandOutputDelta):
            raise asyncio.CancelledError

    async with workbench(tmp_path) as bench:
        original = command(bench, "echo one; read x < /dev/null; echo two; sleep 0.01; echo three")
        live = await LiveCommand.start(bench.place.runner, original, context(publish), ALLOWED)
        finished = await live.look(20)
        assert finished is not None
        assert finished.output.text() == "one\ntwo\nthree\n"
        assert heard == ["exec_command_begin", "exec_command_output_delta"]


class NeverBegan:
    """A command that could not be confined."""

    tier = "bubblewrap"
    finished = CommandResult(1, "not_started", Output(b"", b"", 0), 0.0, reason="no namespace")

    async def wait(self, timeout_s: float | None = None) -> CommandResult:
        return self.finished


async def test_what_could_not_be_confined_is_an_error_and_has_no_exit_code(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        live = LiveCommand(command(bench, "true"), call("shell").call_id, bench.publish, 0.0)
        live.running = NeverBegan()  # type: ignore[assignment]
        with pytest.raises(SandboxError, match="no namespace"):
            await live.see_through(1)
        assert bench.events[-1]["exit_code"] is None


@pytest.mark.parametrize(("policy", "copies"), [(Full(), 1), (HeadersOnly(), 0), (NoStorage(), 0), (Ttl(60), 0)])
async def test_a_protected_file_that_changed_is_told_to_everybody_and_to_the_model(
    tmp_path: Path, policy: StoragePolicy, copies: int
) -> None:
    """S2: an event with its code and paths, a line of the output, and a copy only where everything may be kept"""
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    bench = Workbench(tmp_path, sandbox, None, GuardedPaths())
    place = replace(bench.place, copies=str(tmp_path / "c"))
    bench.with_rights("on-request", storage_policy=policy)
    hooks = bench.root / ".git" / "hooks"
    hooks.mkdir(parents=True)
    order = CommandRequest(argv=("sh", "-c", "echo evil > .git/hooks/pre-commit"), cwd=str(bench.root))
    result = await run_command(place, order, 20, bench.context(call("shell")))
    await sandbox.close()
    assert f"{hooks}/pre-commit (made; put back" in result.text
    (warning,) = [event for event in bench.events if isinstance(event, WarningEvent)]
    assert (warning.code, warning.paths) == ("protected_changed", [f"{hooks}/pre-commit"])
    sentence, _, undo = warning.message.partition(". If you made these changes yourself")
    assert sentence in result.text
    assert ("install -D -m" in undo, "If you made" in result.text) == (copies == 1, False)
    assert os.listdir(hooks) == []
    assert len(list((tmp_path / "c").glob("*"))) == copies


async def test_names_that_a_command_gave_to_protected_files_are_fit_to_be_told(tmp_path: Path) -> None:
    """S2, A6: a name that is no text could not be written down, and one with a line end passed for words of ours."""
    need("landlock")
    sandbox = Sandbox(tier="landlock", clock=SystemClock())
    bench = Workbench(tmp_path, sandbox, None, GuardedPaths())
    (bench.root / ".git" / "hooks").mkdir(parents=True)
    name = b"a\xff\n\x1b[2J\xe2\x80\xaeb"
    script = f"import os; os.close(os.open(b'.git/hooks/' + {name!r}, os.O_CREAT))"
    order = CommandRequest(argv=(sys.executable, "-c", script), cwd=str(bench.root))
    result = await run_command(bench.place, order, 20, bench.context(call("shell")))
    await sandbox.close()
    shown = "/hooks/a⟨U+DCFF⟩⟨U+000A⟩⟨U+001B⟩[2J⟨U+202E⟩b"
    assert f"{shown} (made; put back)" in result.text
    (warning,) = [event for event in bench.events if isinstance(event, WarningEvent)]
    assert msgspec.json.encode(warning)
    assert warning.paths[0].endswith(shown)


# ---- questions about hosts


class Waits:
    """Never ends; notes how long each wait was to be, and says that persons were asked for so long meanwhile."""

    def __init__(self, *asked_s: float) -> None:
        self.waits: list[float] = []
        self.asked_s = 0.0
        self._next = iter(asked_s)

    async def wait(self, timeout_s: float) -> CommandResult | None:
        self.waits.append(timeout_s)
        self.asked_s = next(self._next)
        return None

    async def kill(self) -> CommandResult:
        return CommandResult(137, "killed", Output(b"", b"", 0), 1.0)


async def test_the_time_in_which_persons_are_asked_about_its_hosts_does_not_count() -> None:
    waits = Waits(4.0, 7.0, 7.0)
    command = Command(argv=("x",), cwd="/", confinement=Confinement(mode="read_only"), environment={})
    live = LiveCommand(replace(command, gate=cast(Any, waits)), call("shell").call_id, lambda data: None, 0.0)
    live.running = cast(Any, waits)
    assert (await live.see_through(10.0)).ended == "timeout"
    assert waits.waits == [10.0, 4.0, 3.0]
