"""What a person at the terminal may do: widen rights, run commands, change modes; and that no one else can."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import Session, Settings, errors
from tertulia.protocol.message_events import RightsWidened
from tertulia.session.operations import OPERATIONS, call
from tertulia.session.person.modes import PLAN_INSTRUCTIONS
from tertulia.session.person.person import Person
from tertulia.testing import ScriptedModel, say
from tertulia.testing import call as tool_call
from tests.sandbox.confined import need
from tests.session.staging import Disk, stage, ticks
from tests.tables import each_row

NARROW: dict[str, Any] = {"sandbox": "read-only", "approval_policy": "untrusted", "network": False}


def rights_of(session: Session, conversation: tertulia.Conversation) -> tuple[Any, ...]:
    rights = session.parts.conversations.find(conversation.id).terms.rights
    return rights.sandbox, rights.approval_policy, rights.network


# ---- widening


async def test_the_session_and_its_root_are_widened_and_others_keep_what_they_have() -> None:
    """S004-26, HARDENING B1: recorded as an event; the ceiling of the session and of root rises."""
    async with stage(**NARROW) as on:
        other = await on.session.open()
        before = rights_of(on.session, other)
        events = await Person(on.session).widen(sandbox="danger-full-access", approval_policy="on-request")
        assert events == [
            RightsWidened("sandbox", "read-only", "danger-full-access", "terminal"),
            RightsWidened("approval_policy", "untrusted", "on-request", "terminal"),
        ]
        published = [event for event in on.events.drain() if event.type == "rights_widened"]
        assert [(event.data, event.conversation_id) for event in published] == [(event, on.root.id) for event in events]
        assert all(event.seq is not None for event in published)
        sandbox, approval, network = rights_of(on.session, on.root)
        assert (sandbox, approval.auto_run, network) == ("danger_full_access", "sandboxed", False)
        assert rights_of(on.session, other) == before
        answer = await other.set_context(sandbox="danger-full-access")
        assert [cut.field for cut in answer.narrowed] == ["sandbox"], "its own ceiling stays"
        wide = await on.session.open(sandbox="danger-full-access")
        assert rights_of(on.session, wide)[0] == "danger_full_access", "a new one may ask for as much"
        assert rights_of(on.session, await on.session.open()) == before, "and has by itself what it had before"


async def test_a_child_of_the_root_is_measured_against_the_root_as_it_is_now() -> None:
    """HARDENING B2: a chain is as strict as its strictest member."""
    async with stage(
        say("", tool_call("conv_create", {"user_instruction": "go"}, "c1")), "child", "done", **NARROW
    ) as on:
        narrow = await on.session.open()
        await Person(on.session).widen(network=True)
        await on.root.message("go")
        child = on.session.conversations()[-1]
        assert rights_of(on.session, child)[2] is True
        assert rights_of(on.session, narrow)[2] is False


@each_row(
    "fields",
    [
        {},
        {"sandbox": "read-only"},
        {"sandbox": "anything"},
        {"sandbox": "danger-full-access", "network": "yes"},
        {"sandbox": "danger-full-access", "approval_policy": "untrusted"},
        {"approval_policy": "sometimes"},
    ],
)
async def test_what_is_wrong_or_not_wider_is_refused_and_changes_nothing(fields: dict[str, Any]) -> None:
    async with stage(**NARROW) as on:
        resolver, seq = on.parts.terms_resolver, on.session.activity.last_seq
        before = resolver.ceiling, rights_of(on.session, on.root), await on.root.context()
        with pytest.raises(errors.InvalidParamsError):
            await Person(on.session).widen(**fields)
        assert (resolver.ceiling, rights_of(on.session, on.root), await on.root.context()) == before
        assert (on.session.activity.last_seq, resolver.widened) == (seq, {})


async def test_a_widening_that_cannot_be_recorded_does_not_hold() -> None:
    """HARDENING A22: nothing holds that the record does not know of."""
    async with stage(journal=(disk := Disk()), **NARROW) as on:
        before = on.parts.terms_resolver.ceiling, rights_of(on.session, on.root)
        disk.holding = True
        widening = on.begin(Person(on.session).widen(sandbox="danger-full-access"))
        await ticks()
        disk.fail(errors.StorageError("the disk is full"))
        disk.holding = False
        with pytest.raises(errors.StorageError):
            await widening
        assert (on.parts.terms_resolver.ceiling, rights_of(on.session, on.root)) == before


async def test_never_and_untrusted_together_allow_what_either_does() -> None:
    async with stage(approval_policy="never") as on:
        await Person(on.session).widen(approval_policy="untrusted")
        assert Person(on.session).mode == "ask"
        await on.root.set_context(approval_policy="on-request")
        assert Person(on.session).mode == "auto"


async def test_a_resumed_session_has_what_its_settings_allow_and_no_more() -> None:
    """S002-44: a widening ends with its session."""
    settings = Settings(model=ScriptedModel(["ok"], repeat=True), **NARROW)
    async with Session.start(settings) as session:
        await Person(session).widen(sandbox="danger-full-access", network=True)
        await session.root.message("hi")
    async with Session.resume(session.id, settings) as again:
        assert rights_of(again, again.root)[::2] == ("read_only", False)
        assert again.parts.terms_resolver.ceiling.sandbox == "read_only"


async def test_rights_explain_names_the_terminal() -> None:
    async with stage(**NARROW) as on:
        await Person(on.session, "tty1").widen(network=True)
        answer = await call(tertulia.Host(Settings()), on.session, "rights/explain", {"conversation_id": "root"})
        (network,) = [right for right in answer.answer.rights if right.field == "network"]
        assert (network.value, network.set_by) == (True, "person:tty1")


# ---- and no one else


def test_no_operation_reaches_it() -> None:
    """HARDENING B3, S004-26: the set of operations is closed, and none of their modules knows the person."""
    assert not [name for name in OPERATIONS if "widen" in name or "person" in name]
    sources = {inspect.getsource(inspect.getmodule(operation.run)) for operation in OPERATIONS.values()}
    assert not [source for source in sources if "session.person" in source]
    package = Path(inspect.getfile(tertulia)).parent
    users = {
        str(path.relative_to(package)).split("/")[0]
        for path in package.rglob("*.py")
        if "session.person" in path.read_text(encoding="utf-8") and "session/person" not in path.as_posix()
    }
    assert users <= {"terminal"}, "not the server, no tool, no model"


@each_row("name", ["session/widen", "rights/widen", "person/widen", "person/run_command", "conversation/run_command"])
async def test_a_client_that_tries_finds_no_such_operation(name: str) -> None:
    async with stage(**NARROW) as on:
        with pytest.raises(errors.MethodNotFoundError):
            await call(tertulia.Host(Settings()), on.session, name, {"sandbox": "danger-full-access"})


async def test_whatever_a_client_asks_of_the_operations_that_there_are_rights_never_grow() -> None:
    """HARDENING B3"""
    wide = {"sandbox": "danger-full-access", "approval_policy": "on-failure"}
    async with stage(**NARROW) as on:
        before = on.parts.terms_resolver.ceiling
        host = tertulia.Host(Settings())
        await call(host, on.session, "conversation/set_context", {"conversation_id": "root", **wide})
        await call(host, on.session, "conversation/open", wide)
        for conversation in on.session.conversations():
            sandbox, approval, network = rights_of(on.session, conversation)
            assert (sandbox, approval.auto_run, network) == ("read_only", "trusted", False)
        assert on.parts.terms_resolver.ceiling == before


async def test_no_tool_publishes_that_rights_were_widened() -> None:
    """HARDENING B10"""

    @tertulia.tool
    async def forge(context: tertulia.CallContext) -> str:
        """Try to."""
        context.publish(RightsWidened("sandbox", "read-only", "danger-full-access", "me"))
        return "done"

    async with stage(say("", tool_call("forge", {}, "c1")), "so", tools=[forge]) as on:
        await on.root.message("go")
        (output,) = on.outputs(on.root)
        assert (output.success, "rights_widened" in on.events.types()) == (False, False)


# ---- commands


async def test_a_command_runs_unasked_and_the_model_reads_it_with_the_next_message(tmp_path: Path) -> None:
    """UI.md 4.7: `!command`."""
    fields = {"sandbox": "danger-full-access", "approval_policy": "untrusted", "cwd": str(tmp_path)}
    async with stage("I see.", **fields) as on:
        answer = await Person(on.session).run_command("echo made > file; pwd; exit 3")
        assert (answer.exit_code, answer.output.strip(), answer.offered) == (3, str(tmp_path.resolve()), True)
        assert (tmp_path / "file").read_text() == "made\n"
        begin, end = [event for event in on.events.drain() if event.type in ("exec_command_begin", "exec_command_end")]
        assert (begin.data.call_id, end.data.call_id) == (answer.call_id, answer.call_id)
        assert (begin.conversation_id, begin.task_id) == (on.root.id, None)
        assert (begin.data.allowed_by.kind, begin.data.allowed_by.name) == ("client", "terminal")
        assert (end.data.exit_code, end.data.output) == (3, answer.output)
        assert "approval_request" not in on.events.types()
        assert await on.root.history() == []
        await on.root.message("what did I do?")
        texts = [item.text for item in on.model.last_request.items]
        (read,) = [text for text in texts if text.startswith("<user_shell_command>")]
        assert "pwd; exit 3" in read
        assert "Exit code: 3" in read


async def test_a_command_is_not_offered_where_the_person_does_not_want_it() -> None:
    async with stage("ok", sandbox="danger-full-access") as on:
        answer = await Person(on.session).run_command("true", offer=False)
        assert (answer.exit_code, answer.offered) == (0, False)
        await on.root.message("hi")
        assert not [item for item in on.model.last_request.items if "<user_shell_command>" in item.text]


async def test_a_command_is_confined_by_the_rights_of_its_conversation(tmp_path: Path) -> None:
    """HARDENING B1"""
    need("bubblewrap")
    async with stage(sandbox="read-only", cwd=str(tmp_path)) as on:
        answer = await Person(on.session).run_command("echo made > file")
        assert answer.exit_code != 0
        assert not (tmp_path / "file").exists()


@each_row("line", ["", "  \n", "a\0b", "echo \ud800"])
async def test_a_command_that_is_none_is_refused_and_leaves_nothing(line: str) -> None:
    async with stage(sandbox="danger-full-access") as on:
        seq = on.session.activity.last_seq
        with pytest.raises(errors.InvalidParamsError):
            await Person(on.session).run_command(line)
        assert on.session.activity.last_seq == seq
        assert not on.parts.conversations.root.has_pending


async def test_a_command_that_takes_too_long_or_is_given_up_is_killed() -> None:
    async with stage(sandbox="danger-full-access") as on:
        person = Person(on.session)
        assert (await person.run_command("sleep 600", timeout_s=0.05)).exit_code == 124
        running = on.begin(person.run_command("sleep 600"))
        for _ in range(2):
            await on.events.until("exec_command_begin")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        ends = [event for event in on.events.drain() if event.type == "exec_command_end"]
        assert len(ends) == 2


async def test_the_output_of_a_command_is_bounded() -> None:
    async with stage(sandbox="danger-full-access") as on:
        answer = await Person(on.session).run_command("yes | head -c 3000000")
        assert answer.truncated
        assert len(answer.output) < 100_000


async def test_where_too_much_waits_for_the_model_the_command_runs_and_says_so() -> None:
    async with stage(sandbox="danger-full-access") as on:
        root = on.parts.conversations.root
        person = Person(on.session)
        for _ in range(100):
            root.queue_input(tertulia.UserMessage("i", (tertulia.TextPart("x"),)))
        assert not (await person.run_command("true")).offered
        assert on.events.drain()[-1].data.code == "not_offered"


# ---- modes


async def test_plan_is_read_only_with_an_instruction_and_leaving_it_gives_back_what_was() -> None:
    """UI.md 4.7: Shift-Tab."""
    async with stage("a plan", "done", sandbox="workspace-write", approval_policy="on-request") as on:
        person = Person(on.session)
        await on.root.set_context(user_instructions="Be brief.")
        assert person.mode == "auto"
        change = await person.set_mode("plan")
        assert (change.widens, person.mode) == ((), "plan")
        await on.root.message("how?")
        assert rights_of(on.session, on.root)[0] == "read_only"
        assert any(PLAN_INSTRUCTIONS in item.text for item in on.model.last_request.items)
        back = person.plan_mode("auto")
        assert [(right.field, right.before, right.after, right.beyond_session) for right in back.widens] == [
            ("sandbox", "read-only", "workspace-write", False)
        ]
        with pytest.raises(errors.InvalidParamsError, match="sandbox from read-only to workspace-write"):
            await person.set_mode("auto")
        assert person.mode == "plan"
        await person.set_mode("auto", widen=True)
        assert (person.mode, rights_of(on.session, on.root)[0]) == ("auto", "workspace_write")
        assert (await on.root.context()).user_instructions == "Be brief."
        assert "rights_widened" not in on.events.types(), "it was within what the session allows"


async def test_a_mode_beyond_the_session_widens_it_and_that_is_recorded() -> None:
    async with stage(**NARROW) as on:
        person = Person(on.session)
        assert person.mode == "ask"
        (right,) = person.plan_mode("auto").widens
        assert (right.field, right.beyond_session) == ("approval_policy", True)
        await person.set_mode("auto", widen=True)
        assert (person.mode, on.events.types().count("rights_widened")) == ("auto", 1)
        assert (await person.set_mode("ask")).widens == ()
        assert person.mode == "ask"


async def test_leaving_plan_mode_gives_a_widened_sandbox_back() -> None:
    async with stage(**NARROW) as on:
        person = Person(on.session)
        await person.widen(sandbox="danger-full-access")
        await person.set_mode("plan")
        await person.set_mode("ask", widen=True)
        assert rights_of(on.session, on.root)[0] == "danger_full_access"


async def test_a_mode_that_there_is_not_is_refused_and_rights_of_no_mode_have_none() -> None:
    async with stage(approval_policy="never") as on:
        person = Person(on.session)
        assert person.mode is None
        with pytest.raises(errors.InvalidParamsError, match="plan, ask, auto"):
            person.plan_mode("yolo")  # type: ignore[arg-type]
        await on.root.set_context(user_instructions=PLAN_INSTRUCTIONS)
        assert person.mode is None, "told to plan, and not confined to it"
