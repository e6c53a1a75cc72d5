"""Resume: everything is back as it was, nothing runs, and whatever was under way has its one end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.protocol.events import Event
from tertulia.protocol.items import ToolCall, ToolOutput
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.resume.close_open import INTERRUPTED, UNKNOWN, _what_is_missing
from tertulia.session.resume.recorded_state import RecordedState
from tertulia.session.resume.retention_sweep import sweep_all
from tertulia.session.session import Session
from tertulia.testing import FakeClock, ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.session.lives import Lives, durable_events, types, until
from tests.session.stored import lines, stored_bytes


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


def texts(entries: Any) -> list[str | None]:
    return [entry.text for entry in entries]


def outputs(session: Session, conversation: str = "root") -> list[ToolOutput]:
    state = session.parts.conversations.find(conversation)
    return [item for item in state.history.snapshot() if isinstance(item, ToolOutput)]


def gate() -> tuple[asyncio.Event, asyncio.Event]:
    return asyncio.Event(), asyncio.Event()


# ── as it was ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_conversation_comes_back_with_tree_context_history_and_plan(lives: Lives) -> None:
    """S002-15: a closed one stays closed, ids stay what they were, a new epoch begins."""
    plan = call("update_plan", {"plan": [{"step": "look", "status": "in_progress"}]})
    async with lives.start(plan, "planned", "hello", cwd="/usr") as session:
        child = await session.open(
            base_instructions="Be brief.", user_instructions="In French.", title="helper", sandbox="read-only"
        )
        grandchild = await session.open(parent_id=child.id, title="below")
        gone = await session.open()
        await gone.close()
        await session.root.message("make a plan")
        await child.message("hi")
        before = [c.info for c in session.conversations()]
        contexts = [msgspec.structs.replace(await c.context(), prompt_tokens=0) for c in session.conversations()]
        digests = [conversation.history.totals.digest for conversation in session.parts.conversations]
        last = session.parts.bus.last_seq
    async with lives.resumed(session.id, cwd="/usr") as again:
        assert again.id == session.id
        assert again.root.id == session.root.id
        assert [msgspec.structs.replace(c.info, last_active_at="") for c in again.conversations()] == [
            msgspec.structs.replace(info, last_active_at="") for info in before
        ]
        assert [msgspec.structs.replace(await c.context(), prompt_tokens=0) for c in again.conversations()] == contexts
        assert [conversation.history.totals.digest for conversation in again.parts.conversations] == digests
        assert texts(await again.conversation(child.id).history()) == ["hi", "hello"]
        assert again.conversation(grandchild.id).info.parent_id == child.id
        with pytest.raises(tertulia.errors.ClosedError):
            again.conversation(gone.id)
        news = durable_events(again)
        assert [event.type for event in news] == ["session_configured", "plan_update"]
        assert {event.epoch for event in news} == {1}
        assert [event.seq for event in news] == [last + 1, last + 2]


async def test_resuming_asks_no_model_and_runs_no_tool(lives: Lives) -> None:
    async with lives.start("one") as session:
        await session.root.message("hi")
    model = ScriptedModel(["two"])
    async with Session.resume(session.id, tertulia.Settings(model=model)) as again:
        assert model.requests == []
        assert not again.parts.scheduler.active
        assert (await again.root.message("go on")).text == "two"
        request = [item.text for item in model.requests[0].items if item.text]
        assert request[-3:] == ["hi", "one", "go on"]


async def test_a_session_can_be_resumed_again_and_again(lives: Lives) -> None:
    async with lives.start("1") as session:
        await session.root.message("a")
    for life in range(2, 5):
        async with lives.resumed(session.id, str(life)) as again:
            await again.root.message("more")
            assert {event.epoch for event in durable_events(again)} == {life - 1}
            assert again.root.info.message_count == 2 * life
            seqs = [event.seq for event in durable_events(again)]
            assert seqs == list(range(seqs[0] or 0, (seqs[0] or 0) + len(seqs)))


async def test_a_compacted_history_comes_back_compacted(lives: Lives) -> None:
    """F11: the record of a rewrite is one record: old or new, never neither."""
    long = "x" * 2_000
    async with lives.start(*[long] * 6, "the notes", "after") as session:
        for round in range(6):
            await session.root.message(f"round {round} {long}")
        before = session.parts.conversations.root.history.totals.digest
        lives.die()
        assert (await session.root.compact()).compacted
        await session.root.message("and now?")
        after = session.parts.conversations.root.history.totals.digest
    async with lives.resumed(session.id) as again:
        assert again.parts.conversations.root.history.totals.digest == before
    lives._monkeypatch.setenv("TERTULIA_HOME", str(lives._folder / "first"))
    async with lives.resumed(session.id) as again:
        assert again.parts.conversations.root.history.totals.digest == after
        assert any(item.__class__.__name__ == "Summary" for item in again.parts.conversations.root.history.snapshot())


async def test_a_fork_comes_back_and_shares_what_it_shared(lives: Lives) -> None:
    async with lives.start("one", "two", "forked") as session:
        await session.root.message("first")
        await session.root.message("second")
        fork = await session.root.fork(at=1)
        await fork.message("otherwise")
        digest = session.parts.conversations.find(fork.id).history.totals.digest
    async with lives.resumed(session.id) as again:
        assert texts(await again.conversation(fork.id).history()) == ["first", "one", "otherwise", "forked"]
        assert again.parts.conversations.find(fork.id).history.totals.digest == digest


async def test_what_was_put_in_and_not_yet_read_is_not_lost(lives: Lives) -> None:
    """Steering is acknowledged: after a crash the next request has it."""
    go = asyncio.Event()
    async with lives.start(say("thinking", gate=go), "never") as session:
        task = asyncio.create_task(session.root.message("start"))
        await until(lambda: session.parts.conversations.root.task is not None)
        await session.root.steer("and be quick")
        lives.die()
        go.set()
        await task
    async with lives.resumed(session.id, "done") as again:
        await again.root.message("go on")
        assert "and be quick" in texts(await again.root.history())


# ── what was under way ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_tool_that_had_been_started_has_an_unknown_outcome_and_is_not_run_again(lives: Lives) -> None:
    """F13: reported, not silently rerun; the call that had not been started is only interrupted."""
    started, go = gate()
    runs: list[str] = []

    @tertulia.tool
    async def deploy(where: str) -> str:
        """Have an effect."""
        runs.append(where)
        started.set()
        await go.wait()
        return "deployed"

    settings: dict[str, Any] = {"tools": [deploy]}
    both = say("", call("deploy", {"where": "here"}), call("deploy", {"where": "there"}))
    async with lives.start(both, "done", **settings) as session:
        task = asyncio.create_task(session.root.message("deploy"))
        await started.wait()
        lives.die()
        go.set()
        await task
    runs.clear()
    async with lives.resumed(session.id, "sorry", **settings) as again:
        assert [output.text for output in outputs(again)] == [UNKNOWN, INTERRUPTED]
        assert not any(output.success for output in outputs(again))
        assert runs == []
        assert types(again) == [
            "session_configured", "tool_call_end", "tool_call_begin", "tool_call_end", "turn_aborted"
        ]  # fmt: skip
        aborted = durable_events(again)[-1]
        assert (aborted.data["reason"], aborted.conversation_id) == ("crash", session.root.id)
        assert (await again.root.message("what now?")).text == "sorry"


@pytest.mark.parametrize(("away", "stored"), [(30.0, True), (90.0, False)])
async def test_a_result_that_is_said_again_is_no_younger_for_it(lives: Lives, away: float, stored: bool) -> None:
    """E4, X-31: it had ended, it had not been said; its text goes a minute after it came, not after the resume."""
    clock = FakeClock()
    started, go = gate()

    @tertulia.tool
    async def look(where: str) -> str:
        """One is quick, the other is not."""
        if where == "there":
            started.set()
            await go.wait()
        return f"canary-{where}"

    settings: dict[str, Any] = {"tools": [look], "storage_policy": {"ttl": 60.0}}
    both = say("", call("look", {"where": "here"}), call("look", {"where": "there"}))
    model = ScriptedModel([both, "done"])
    async with Session.start(tertulia.Settings(model=model, **settings), clock=clock) as session:
        task = asyncio.create_task(session.root.message("look"))
        await started.wait()
        await session.parts.journal.settle()
        lives.die()
        go.set()
        await task
    clock.advance(away)
    again = Session.resume(session.id, tertulia.Settings(model=ScriptedModel([]), **settings), clock=clock)
    async with again as back:
        assert ("canary-here" in [output.text for output in outputs(back)]) is stored
    clock.advance(59.0 - away if stored else 0.0)
    assert (b"canary-here" in stored_in(lives.home)) is stored
    clock.advance(2.0)
    await sweep_all(lives.home, tertulia.Settings(), clock)
    assert b"canary-here" not in stored_in(lives.home)


def stored_in(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (home / "sessions").iterdir())


async def test_a_call_that_was_not_stored_has_its_one_end_too(lives: Lives) -> None:
    """F13, S002-16: under headers_only a tool that had been started ends with an unknown outcome, once and for all."""
    started, go = gate()

    @tertulia.tool
    async def deploy(where: str) -> str:
        """Have an effect."""
        started.set()
        await go.wait()
        return "deployed"

    settings: dict[str, Any] = {"tools": [deploy], "storage_policy": "headers_only"}
    async with lives.start(call("deploy", {"where": "here"}), "done", **settings) as session:
        task = asyncio.create_task(session.root.message("deploy"))
        await started.wait()
        lives.die()
        go.set()
        await task
    async with lives.resumed(session.id, **settings) as again:
        assert types(again) == ["session_configured", "tool_call_end", "turn_aborted", "warning"]
        end = durable_events(again)[1].data
        assert (end["name"], end["success"], end["output"]) == ("deploy", False, UNKNOWN)
    async with lives.resumed(session.id, **settings) as again:
        assert types(again) == ["session_configured", "warning"]


async def test_a_chain_that_was_not_stored_is_dropped_with_an_event_once(lives: Lives) -> None:
    """F10, S002-16."""
    go = asyncio.Event()
    create = call("conv_create", {"user_instruction": "you do it"})
    async with lives.start(create, say("never", gate=go), "outer", storage_policy="headers_only") as session:
        task = asyncio.create_task(session.root.message("delegate"))
        await until(lambda: [c.info.status for c in session.conversations()][1:] == ["running"])
        await session.parts.bus.flush()
        lives.die()
        go.set()
        await task
    async with lives.resumed(session.id) as again:
        (end,) = [e.data for e in durable_events(again) if e.type == "tool_call_end"]
        assert (end["name"], msgspec.json.decode(end["output"])["ok"]) == ("conv_create", False)
        assert [e.data["code"] for e in durable_events(again) if e.type == "warning"].count("chain_dropped") == 1
    async with lives.resumed(session.id) as again:
        assert [e.data["code"] for e in durable_events(again) if e.type == "warning"] == ["not_stored", "not_stored"]
        assert "tool_call_end" not in types(again)


async def test_a_result_that_was_written_down_is_used_although_the_turn_was_not_finished(lives: Lives) -> None:
    """A tool has answered, its sibling has not: the answer is known."""
    started, go = gate()

    @tertulia.tool
    async def first() -> str:
        """Answer at once."""
        return "known"

    @tertulia.tool
    async def second() -> str:
        """Take long."""
        started.set()
        await go.wait()
        return "late"

    settings: dict[str, Any] = {"tools": [first, second]}
    async with lives.start(say("", call("first"), call("second")), "done", **settings) as session:
        task = asyncio.create_task(session.root.message("both"))
        await started.wait()
        lives.die()
        go.set()
        await task
    async with lives.resumed(session.id, **settings) as again:
        assert [output.text for output in outputs(again)] == ["known", UNKNOWN]
        assert types(again) == ["session_configured", "tool_call_end", "turn_aborted"]


async def test_a_chain_is_closed_from_the_inside_and_dropped_with_an_event(lives: Lives) -> None:
    """F10, S004-18: each call has one output; the conversations wait for their next message."""
    go = asyncio.Event()
    create = call("conv_create", {"user_instruction": "you do it"})
    nested = call("conv_create", {"user_instruction": "no, you"})
    async with lives.start(create, nested, say("never", gate=go), "inner", "outer", "x", "y") as session:
        task = asyncio.create_task(session.root.message("delegate"))
        await until(lambda: [c.info.status for c in session.conversations()][2:] == ["running"])
        await session.parts.bus.flush()
        lives.die()
        go.set()
        await task
    async with lives.resumed(session.id, "fine") as again:
        root, child, grandchild = again.conversations()
        closed = [e for e in durable_events(again) if e.type in ("tool_call_end", "turn_aborted")]
        assert [(e.type, e.conversation_id) for e in closed] == [
            ("turn_aborted", grandchild.id),
            ("tool_call_end", child.id),
            ("tool_call_end", root.id),
        ]
        dropped = [e.conversation_id for e in durable_events(again) if e.data.__class__.__name__ == "WarningEvent"]
        assert dropped == [child.id, root.id]
        for conversation in (root.id, child.id):
            (output,) = outputs(again, conversation)
            assert msgspec.json.decode(output.text)["ok"] is False
        assert [c.info.status for c in again.conversations()] == ["idle"] * 3
        assert (await again.root.message("and now?")).text == "fine"


async def test_a_detached_message_that_had_not_begun_has_its_end(lives: Lives) -> None:
    """Pending chains are dropped with an event: whoever was told a task id can learn what became of it."""
    go = asyncio.Event()
    async with lives.start(say("busy", gate=go), "second") as session:
        host = Host(tertulia.Settings())
        first = asyncio.create_task(session.root.message("first"))
        await until(lambda: session.parts.conversations.root.task is not None)
        done = await operate(
            host, session, "conversation/message", {"conversation_id": "root", "text": "later", "detach": True}
        )
        lives.die()
        go.set()
        await first
        await session.close()
    async with lives.resumed(session.id) as again:
        aborted = [event for event in durable_events(again) if event.type == "turn_aborted"]
        assert done.answer["task_id"] in [event.task_id for event in aborted]
        assert {event.data["reason"] for event in aborted} == {"crash"}
        assert texts(await again.root.history()) == ["first"]


# ── the same message again ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", ["full", "headers_only", "none", {"ttl": 100.0}])
@pytest.mark.parametrize("ttl_action", ["headers_only", "delete"])
async def test_a_message_that_was_answered_never_runs_again_under_any_policy(
    lives: Lives, policy: Any, ttl_action: str
) -> None:
    """R3, X-37: its text may be gone, and that is said; the id itself is kept nowhere."""
    clock = FakeClock()
    retention = {"ttl_action": ttl_action}
    settings = tertulia.Settings(model=ScriptedModel(["once"]), storage_policy=policy, retention=retention)
    async with Session.start(settings, clock=clock) as session:
        first = await session.root.message("hi", message_id="CANARY m-1")
    assert b"CANARY" not in stored_bytes(session.id)
    # Twice: what the first life after it writes must not make the next forget.
    for _ in range(2):
        clock.advance(200)
        model = ScriptedModel(["a second run"])
        settings = tertulia.Settings(model=model, storage_policy=policy, retention=retention)
        async with Session.resume(session.id, settings, clock=clock) as again:
            repeated = await again.root.message("hi", message_id="CANARY m-1")
            assert model.requests == []
            assert (repeated.status, repeated.task_id) == (first.status, first.task_id)
            if policy == "full":
                assert (repeated.text, repeated.error) == ("once", None)
            else:
                assert repeated.text is None
                assert repeated.error is not None
                assert repeated.error.code == "not_stored"


async def test_a_failure_whose_words_were_not_stored_keeps_its_code(lives: Lives) -> None:
    """R3"""
    async with lives.start(ValueError("CANARY"), storage_policy=HeadersOnly()) as session:
        first = await session.root.message("hi", message_id="m")
        assert first.error is not None
    async with lives.resumed(session.id, "a second run", storage_policy=HeadersOnly()) as again:
        repeated = await again.root.message("hi", message_id="m")
        assert repeated.error is not None
        assert (repeated.status, repeated.error.code) == ("failed", first.error.code)
        assert "not stored" in repeated.error.message


@pytest.mark.parametrize("policy", [Full(), HeadersOnly(), NoStorage()])
async def test_a_message_that_a_shutdown_dropped_has_its_answer_too(lives: Lives, policy: Any) -> None:
    """R3: it waited, was answered `interrupted`, and is not run by the next life on the same id."""
    async with lives.start(say("slow", gate=asyncio.Event()), storage_policy=policy) as session:
        running = asyncio.create_task(session.root.message("one", message_id="m-1"))
        waiting = asyncio.create_task(session.root.message("two", message_id="m-2"))
        await until(lambda: session.parts.scheduler.active)
        await session.close()
        assert [(await task).status for task in (running, waiting)] == ["interrupted", "interrupted"]
    async with lives.resumed(session.id, "fresh", storage_policy=policy) as again:
        assert (await again.root.message("two", message_id="m-2")).status == "interrupted"


async def test_a_detached_message_that_is_repeated_after_its_end_has_no_second_end(lives: Lives) -> None:
    """R3: the repetition was noted like a new task, which the next life closed as crashed, and then ran again."""
    async with lives.start("once") as session:
        params = {"conversation_id": "root", "text": "hi", "message_id": "m", "detach": True}
        host = Host(tertulia.Settings())
        first = await operate(host, session, "conversation/message", params)
        scheduler = session.parts.scheduler
        await until(lambda: not scheduler.active and not scheduler.queued())
        again = await operate(host, session, "conversation/message", params)
        assert again.answer["task_id"] == first.answer["task_id"]
    async with lives.resumed(session.id, "a second run") as back:
        assert "turn_aborted" not in types(back)
        assert (await back.root.message("hi", message_id="m")).text == "once"


@pytest.mark.parametrize("policy", [Full(), HeadersOnly()])
@pytest.mark.parametrize("kind", ["tool", "handed"])
async def test_a_call_that_was_cut_has_one_output_in_the_record_and_in_every_fork(
    lives: Lives, policy: Any, kind: str
) -> None:
    """R3: also where the history was forgotten, so that only the record has the call; and after the next life."""
    entered, never = gate()

    @tertulia.tool
    async def act() -> str:
        """Hang."""
        entered.set()
        await never.wait()
        return "never"

    answer = call("act", {}) if kind == "tool" else call("conv_create", {"user_instruction": "act"})
    replies = [answer, call("act", {})]
    async with lives.start(*replies, tools=[act], storage_policy=policy) as session:
        running = asyncio.create_task(session.root.message("hi"))
        await asyncio.wait_for(entered.wait(), HANG_S)
        await session.parts.bus.flush()
        lives.die()
        for number in range(2):
            async with lives.resumed(session.id, "on", "forked", tools=[act], storage_policy=policy) as back:
                await back.root.message("go on")
                fork = await back.root.fork()
                await fork.message(f"there {number}")
                shape = [type(item).__name__ for item in items_of(back, fork.id)]
            past = RecordedState().read(lines(session.id))
            for conversation in past.conversations.values():
                calls = [item.call_id for item in conversation.items if isinstance(item, ToolCall)]
                assert calls == [item.call_id for item in conversation.items if isinstance(item, ToolOutput)]
            assert [type(item).__name__ for item in past.conversations[fork.id].items] == shape
        whole = [item for line in lines(session.id) if isinstance(line.what, ItemsRecord) for item in line.what.items]
        made = [item.call_id for item in whole if isinstance(item, ToolCall)]
        assert len(made) == (1 if kind == "tool" else 2)
        assert sorted(made) == sorted(item.call_id for item in whole if isinstance(item, ToolOutput))
        ends = [line.what.data["call_id"] for line in lines(session.id) if is_event(line, "tool_call_end")]
        begins = [line.what.data["call_id"] for line in lines(session.id) if is_event(line, "tool_call_begin")]
        assert sorted(begins) == sorted(ends) == sorted(made)
        running.cancel()


def items_of(session: Session, conversation: str) -> list[Any]:
    return list(session.parts.conversations.find(conversation).history.snapshot())


def is_event(line: Any, type: str) -> bool:
    return isinstance(line.what, Event) and line.what.type == type


async def test_a_failed_answer_is_recorded_as_it_was(lives: Lives) -> None:
    async with lives.start() as session:
        first = await session.root.message("hi", message_id="m")
        assert first.status == "failed"
    async with lives.resumed(session.id, "a second run") as again:
        repeated = await again.root.message("hi", message_id="m")
        assert (repeated.status, repeated.error) == ("failed", first.error)


async def test_a_message_that_the_crash_cut_short_is_run_afresh(lives: Lives) -> None:
    go = asyncio.Event()
    async with lives.start(say("cut", gate=go)) as session:
        task = asyncio.create_task(session.root.message("hi", message_id="m"))
        await until(lambda: session.parts.conversations.root.task is not None)
        await session.parts.bus.flush()
        lives.die()
        go.set()
        await task
    async with lives.resumed(session.id, "fresh") as again:
        assert (await again.root.message("hi", message_id="m")).text == "fresh"


# ── what was not stored ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", ["headers_only", "none"])
async def test_what_was_not_stored_is_said_and_nobody_has_more_rights_than_before(lives: Lives, policy: str) -> None:
    """S002-16, S002-17: a clear answer about what cannot be restored."""
    async with lives.start("secret reply", storage_policy=policy, sandbox="read-only") as session:
        child = await session.open(
            base_instructions="secret", title="secret", mcp_tool_allowlist=[], include_plan_tool=False
        )
        await child.message("secret question")
    async with lives.resumed(session.id, "go on") as again:
        back = again.conversation(child.id)
        context = await back.context()
        assert context.storage_policy == policy
        assert (context.policy["sandbox"], context.mcp_tool_allowlist) == ("read-only", [])
        assert context.tools_prefs["include_plan_tool"] is False
        assert (context.base_instructions, back.info.title) == (None, None)
        (warning,) = [e for e in durable_events(again) if e.type == "warning" and e.conversation_id == child.id]
        assert warning.data["code"] == "not_stored"
        assert policy in warning.data["message"]
        assert await back.history() == []
        assert (await back.message("again")).text == "go on"
        seen = [item.text for item in again.parts.conversations.find(child.id).history.snapshot()]
        assert any(text.startswith("<not_stored>") for text in seen)


async def test_what_was_said_under_a_stricter_policy_stays_so_when_a_looser_one_is_set(lives: Lives) -> None:
    """S002-19, X-32, E1: notes on it and whoever reads its history carry the policy along, after a resume too."""

    def found() -> int:
        return sum(b"CANARY" in path.read_bytes() for path in lives.home.rglob("*") if path.is_file())

    async with lives.start("one", "two", "CANARY notes") as session:
        conversation = await session.open()
        await conversation.set_context(storage_policy="headers_only")
        await conversation.message("CANARY " + "long words " * 2000)
        await conversation.set_context(storage_policy="full")
        await conversation.message("and now?")
        read = call("conv_history", {"conversation_id": conversation.id})
        await session.root.set_context(model=ScriptedModel([read, "read"]))
        assert (await session.root.message("look")).text == "read"
        assert "CANARY" in outputs(session)[0].text
        assert (await conversation.compact()).compacted
        assert not session.parts.conversations.find(conversation.id).history.may_be_kept_elsewhere
        assert found() == 0
    async with lives.resumed(session.id) as again:
        assert again.parts.conversations.find(conversation.id).history.kept_by == HeadersOnly()
        assert "and now?" in texts(await again.conversation(conversation.id).history())
    assert found() == 0


async def test_what_is_listed_of_a_session_is_its_policy_and_model_of_today(lives: Lives) -> None:
    """S002-16: whoever looks at the list sees what holds now, not what held when it began."""
    async with lives.start("one") as session:
        await session.root.message("hello")
        (before,) = list_sessions(lives.home)
        await session.open(storage_policy="none")
        await session.root.set_context(storage_policy="headers_only")
    (after,) = list_sessions(lives.home)
    assert (before.storage, after.storage) == ("full", "headers_only")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Full(), "2 texts: they were not stored, by the policy of another conversation"),
        (Ttl(1), "2 texts: they have expired or were not stored, its storage policy is ttl:1"),
    ],
)
def test_why_a_text_does_not_come_back_is_said_as_people_write_it(policy: Ttl | Full, expected: str) -> None:
    """S002-18, S002-19."""
    assert _what_is_missing(policy, 2).startswith(expected)
    assert _what_is_missing(policy, 1).startswith("1 text:")
    assert _what_is_missing(policy, 2, title=True).startswith(f"its title and {expected}")
    assert _what_is_missing(policy, 0, title=True).startswith("its title: it ")


async def test_a_title_that_was_not_stored_is_missed_until_there_is_another(lives: Lives) -> None:
    """Issue 19, 15."""

    def warnings(session: Session) -> list[str]:
        return [event.data["message"] for event in durable_events(session) if event.type == "warning"]

    async with lives.start("one") as session:
        child = await session.open(title="canary", storage_policy="headers_only")
        await session.open(storage_policy="headers_only")
    for _ in range(2):
        async with lives.resumed(session.id) as again:
            (lost,) = [message for message in warnings(again) if "title" in message]
            assert lost.startswith(f"conversation {child.id} comes back without its title and 1 text: ")
            assert again.conversation(child.id).info.title is None
    async with lives.resumed(session.id) as again:
        await again.conversation(child.id).set_context(title="new", storage_policy="headers_only")
        await again.conversation(child.id).set_context(title=None)
    async with lives.resumed(session.id) as again:
        assert not any("title" in message for message in warnings(again))


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_resuming_with_less_narrows_and_with_more_does_not_widen(lives: Lives) -> None:
    """S000-16: the ceiling of then, and of now."""
    async with lives.start(sandbox="workspace-write", network=False) as session:
        child = await session.open(sandbox="read-only")
    async with lives.resumed(session.id, sandbox="danger-full-access", network=True) as again:
        assert (await again.root.context()).policy["sandbox"] == "workspace-write"
        assert (await again.conversation(child.id).context()).policy["sandbox"] == "read-only"
        assert (await again.root.set_context(sandbox="danger-full-access")).narrowed[0].given == "workspace-write"
    async with lives.resumed(session.id, sandbox="read-only", storage_policy="headers_only") as again:
        context = await again.root.context()
        assert (context.policy["sandbox"], context.policy["storage"]) == ("read-only", "headers_only")


async def test_a_life_with_less_does_not_bind_the_next_one(lives: Lives) -> None:
    """S000-16: the session's ceiling is that of now; only what is stored never becomes more."""
    roots = [str(lives._folder)]
    async with lives.start(sandbox="workspace-write", writable_roots=roots) as session:
        child = await session.open(sandbox="read-only")
    less: dict[str, Any] = {"sandbox": "read-only", "approval_policy": "never", "storage_policy": "headers_only"}
    async with lives.resumed(session.id, **less, limits={"max_task_interrupts": 1}) as again:
        assert (await again.root.context()).policy["sandbox"] == "read-only"
    async with lives.resumed(session.id, writable_roots=roots) as again:
        context = await again.root.context()
        assert (context.policy["sandbox"], context.policy["approval"]) == ("workspace-write", "on-request")
        assert (context.policy["storage"], context.limits["max_task_interrupts"]) == ("headers_only", 64)
        assert (await again.conversation(child.id).context()).policy["sandbox"] == "read-only"


async def test_the_model_is_that_of_then_unless_one_is_given(lives: Lives) -> None:
    script = lives._folder / "script.json"
    script.write_text('{"replies": [{"text": "from the file"}]}')
    async with Session.start(tertulia.Settings(model=f"scripted/{script}")) as session:
        name = session.info.model
    async with Session.resume(session.id) as again:
        assert again.info.model == name
        assert (await again.root.message("hi")).text == "from the file"
    async with lives.resumed(session.id, "from the test") as again:
        assert (await again.root.message("hi")).text == "from the test"


async def test_a_model_that_cannot_be_had_any_more_is_replaced_and_said(lives: Lives) -> None:
    acme = {"acme": {"base_url": "http://127.0.0.1:9", "wire": "chat"}}
    async with lives.start("x", model_providers=acme) as session:
        child = await session.open(model="acme/one")
    async with lives.resumed(session.id, "stand-in") as again:
        (warning,) = [e for e in durable_events(again) if e.type == "warning"]
        assert (warning.data["code"], warning.conversation_id) == ("not_restored", child.id)
        assert "acme/one" in warning.data["message"]
        assert (await again.conversation(child.id).message("hi")).text == "stand-in"
