"""Delegation from Python, written from the documents alone: payloads, order, endings, limits, rights."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.models.scripted.script import ScriptedError
from tertulia.testing import ScriptedModel, ScriptedReply, assert_order, call, check_invariants, say
from tests.contract.python_session import becomes, soon
from tests.tables import each_row

CONV_TOOLS = ["conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy"]
NOBODY = "00000000-0000-4000-8000-000000000000"


class ScriptedSession:
    """A session, what its model is to say next, and everything that was told."""

    def __init__(self, session: tertulia.Session, model: ScriptedModel, script: list[Any]) -> None:
        self.session, self.root, self.model, self.script = session, session.root, model, script
        self.told: list[tertulia.Event] = []

    def then(self, *replies: Any) -> None:
        self.script.extend(replies)

    async def says(self, *replies: Any, to: tertulia.Conversation | None = None, text: str = "go") -> tertulia.Reply:
        self.then(*replies)
        return await soon((to or self.root).message(text))

    def of(self, *types: str) -> list[tertulia.Event]:
        return [event for event in self.told if event.type in types]

    def answers(self) -> list[tuple[str, bool, dict[str, Any]]]:
        """(call id, success, payload) of every call that has ended."""
        ends = [event.data for event in self.of("tool_call_end")]
        return [(data.call_id, data.success, json.loads(data.output)) for data in ends]

    def answer(self) -> dict[str, Any]:
        """The payload of the newest answer; X-08: the flag beside it says the same."""
        _, success, payload = self.answers()[-1]
        assert payload["ok"] is success
        return payload

    def refused(self) -> tuple[str, str]:
        payload = self.answer()
        assert payload["ok"] is False
        return payload["code"], payload["reason"]

    def ids(self) -> list[str]:
        return [conversation.id for conversation in self.session.conversations()]

    def tasks(self) -> list[tuple[str, str]]:
        """(who, what) of each begin and end of a task; the root is A, the others B, C and so on, by age."""
        order = [self.root.id, *(event.conversation_id for event in self.of("conversation_opened"))]
        ends: list[tuple[str, str]] = []
        for event in self.of("task_started", "task_complete", "turn_aborted"):
            data: Any = event.data
            what = data.kind if event.type == "task_started" else getattr(data, "status", None) or data.reason
            ends.append(("ABCDEFGHIJ"[order.index(event.conversation_id)], what))
        return ends


@asynccontextmanager
async def scripted_session(*replies: Any, **settings: Any) -> AsyncIterator[ScriptedSession]:
    """The events of the whole life must keep every promise."""
    script = list(replies)

    def next_reply(request: Any) -> Any:
        reply = script.pop(0) if script else "nothing more to say"
        return reply(request) if callable(reply) else reply

    model = ScriptedModel([next_reply], repeat=True)
    async with tertulia.Session.start(tertulia.Settings(model=model, **settings)) as session:
        held = ScriptedSession(session, model, script)
        listening = asyncio.create_task(_listen(session.events(), held.told))
        await asyncio.sleep(0)
        yield held
    await soon(listening)
    check_invariants(held.told)


async def _listen(events: Any, seen: list[tertulia.Event]) -> None:
    async for event in events:
        seen += [event]


def create(task: str = "do it", call_id: str = "c1", **arguments: Any) -> Any:
    return say("", call("conv_create", {"user_instruction": task, **arguments}, call_id))


def use(name: str, call_id: str = "c1", **arguments: Any) -> Any:
    return say("", call(name, arguments, call_id))


def send(to: str, call_id: str = "c1", text: str = "please") -> Any:
    return use("conv_send", call_id, conversation_id=to, text=text)


def offered(request: Any) -> list[str]:
    return [tool.name for tool in request.request.tools]


def texts(request: Any) -> list[str]:
    return [part.text for item in request.items for part in getattr(item, "parts", ()) if hasattr(part, "text")]


# ---- what models are offered


async def test_the_five_tools_are_offered_by_default_in_their_order_and_say_which_interrupt() -> None:
    """S004-01, S004-02, X-01, X-20: no dotted name is ever sent."""
    async with scripted_session("hi") as on:
        await soon(on.root.message("hello"))
        tools = {tool.name: tool for tool in on.model.last_request.request.tools}
        assert [name for name in tools if name.startswith("conv")] == CONV_TOOLS
        for name in CONV_TOOLS:
            says = tools[name].description.lower()
            assert ("does not interrupt" in says) is (name not in ("conv_create", "conv_send"))
            assert "interrupt" in says
            assert len(says) < 400
        assert "user_instruction" in json.loads(tools["conv_create"].schema)["properties"]
        silent = await on.session.open(include_conv_tools=False)
        await on.says("alone", to=silent)
        assert not [name for name in offered(on.model.last_request) if name.startswith("conv")]


@pytest.mark.parametrize("name", ["conv.create", "conv_create"])
async def test_a_dotted_name_is_the_same_tool(name: str) -> None:
    """X-01: accepted on dispatch; what is told and kept has the wire's name."""
    async with scripted_session() as on:
        await on.says(say("", call(name, {"user_instruction": "x"}, "c1")), "child", "done")
        assert on.answer()["last_assistant_message"] == "child"
        assert {event.data.name for event in on.of("tool_call_begin", "tool_call_end")} == {"conv_create"}


# ---- payloads


async def test_create_answers_with_id_echo_and_the_childs_last_words() -> None:
    """S004-04, S004-05, S004-34, X-02, X-07."""
    async with scripted_session() as on:
        items = [{"type": "text", "text": "and this"}]
        reply = await on.says(create("sum it up", items=items, title="Sums"), "first words", "all done")
        payload = on.answer()
        assert str(uuid.UUID(payload["conversation_id"])) == payload["conversation_id"]
        assert (payload["status"], payload["last_assistant_message"]) == ("completed", "first words")
        assert (payload["first_user_message"], payload["first_items_count"]) == ("sum it up", 1)
        assert (reply.status, reply.text, reply.tool_calls) == ("completed", "all done", 1)
        child = on.session.conversation(payload["conversation_id"])
        assert [(entry.role, entry.text) for entry in await child.history()][1:] == [("assistant", "first words")]
        words = [text for text in texts(on.model.requests[1]) if not text.startswith("<")]
        assert words == ["sum it up", "and this"], "text first, then the items, each once (X-06)"
        assert (child.info.title, child.info.parent_id, child.info.depth) == ("Sums", on.root.id, 1)


async def test_send_answers_with_id_and_last_words_of_that_task() -> None:
    """S004-06: and only of that task, not of an earlier one."""
    async with scripted_session() as on:
        other = await on.session.open()
        await on.says("an old answer", to=other)
        await on.says(send(other.id), "a new answer", "done")
        payload = on.answer()
        assert (payload["conversation_id"], payload["last_assistant_message"]) == (other.id, "a new answer")
        assert "first_user_message" not in payload
        await on.says(send(other.id, "c2"), say(""), "done")
        payload = on.answer()
        assert (payload["ok"], payload["last_assistant_message"]) == (False, None), "silence is no success (X-14)"


async def test_list_and_history_and_destroy_only_return_an_output() -> None:
    """S004-07..S004-11, S004-27, X-17, X-18."""
    async with scripted_session() as on:
        await on.says(create("task", title="kid"), "answer", "done", text="question")
        (child,) = (id for id in on.ids() if id != on.root.id)
        on.told.clear()
        await on.says(use("conv_list"), use("conv_history", conversation_id=child), "ok")
        listed, history = [payload for _, _, payload in on.answers()]
        root, kid = listed["conversations"]
        assert (root["id"], kid["id"]) == (on.root.id, child)
        assert {"id", "parent_id", "title", "status", "depth", "message_count", "last_active_at"} <= set(kid)
        assert (kid["parent_id"], kid["title"], kid["status"], kid["depth"]) == (on.root.id, "kid", "idle", 1)
        assert (root["status"], root["parent_id"]) == ("running", None)
        assert (kid["message_count"], root["message_count"]) == (2, 3), "user and assistant messages only"
        assert kid["last_active_at"].endswith("Z")
        assert [(entry["role"], entry["text"]) for entry in history["entries"]] == [
            ("user", "task"),
            ("assistant", "answer"),
        ]
        assert [entry["attachments"] for entry in history["entries"]] == [[], []]
        await on.says(use("conv_history", conversation_id=child, limit=1), "ok")
        assert [entry["text"] for entry in on.answer()["entries"]] == ["answer"]
        await on.says(use("conv_destroy", conversation_id=child), "ok")
        assert on.answer()["ok"] is True
        assert on.ids() == [on.root.id]
        assert [what for _, what in on.tasks() if what == "replaced"] == []


async def test_history_shows_pictures_and_no_tool_calls() -> None:
    """S004-09."""
    picture = "data:image/png;base64,AAAA"
    async with scripted_session() as on:
        items = [{"type": "image", "image_url": picture}]
        await on.says(create("look", items=items), use("conv_list", "inner"), "seen", "done")
        child = on.ids()[1]
        await on.says(use("conv_history", conversation_id=child), "ok")
        entries = on.answer()["entries"]
        assert [entry["role"] for entry in entries] == ["user", "assistant"]
        assert entries[0]["attachments"] == [{"type": "image", "image_url": picture}]


@pytest.mark.parametrize(("title", "shown"), [(" a\n\tname ", "a name"), (" \n ", None), ("", None)])
async def test_a_title_is_one_line_or_none(title: str, shown: str | None) -> None:
    """It stands in lists, whatever a model writes."""
    async with scripted_session() as on:
        await on.says(create(title=title), "child", "done")
        assert on.session.conversation(on.ids()[1]).info.title == shown


# ---- order


async def test_the_order_of_a_create() -> None:
    """S004-13, S004-14, S004-25; tool_call_end under the continuation's task, after the target's end."""
    async with scripted_session() as on:
        reply = await on.says(create(), "child", "done")
        assert on.tasks() == [
            ("A", "user"), ("A", "replaced"), ("B", "target"), ("B", "completed"), ("A", "continuation"),
            ("A", "completed"),
        ]  # fmt: skip
        started = {event.data.kind: event for event in on.of("task_started")}
        (begin,), (end,) = on.of("tool_call_begin"), on.of("tool_call_end")
        assert begin.task_id == started["user"].task_id == reply.task_id
        assert end.task_id == started["continuation"].task_id != begin.task_id
        assert started["target"].seq < on.of("task_complete")[0].seq < started["continuation"].seq < end.seq
        (replaced,) = on.of("turn_aborted")
        assert (replaced.data.reason, replaced.data.by_call_id) == ("replaced", "c1")
        assert {event.trace_id for event in on.of("task_started")} == {reply.trace_id}


async def test_nesting_goes_in_and_out_again() -> None:
    """S004-36, X-03, S004-18, S004-19: A✗ → B → B✗ → C → B′ → A′, nothing empty, every call in its history once."""
    async with scripted_session() as on:
        reply = await on.says(create("to B", "outer"), create("to C", "inner"), "c says", "b says", "a says")
        assert on.tasks() == [
            ("A", "user"), ("A", "replaced"), ("B", "target"), ("B", "replaced"), ("C", "target"), ("C", "completed"),
            ("B", "continuation"), ("B", "completed"), ("A", "continuation"), ("A", "completed"),
        ]  # fmt: skip
        assert [(id, payload["last_assistant_message"]) for id, _, payload in on.answers()] == [
            ("inner", "c says"), ("outer", "b says"),
        ]  # fmt: skip
        assert reply.text == "a says"
        last = on.model.last_request
        assert "" not in texts(last)
        kinds = [type(item).__name__ for item in last.items]
        assert (kinds.count("ToolCall"), kinds.count("ToolOutput")) == (1, 1)


async def test_several_interrupting_calls_and_an_ordinary_one_are_one_block() -> None:
    """X-12: the ordinary one runs before the switch, one continuation closes the others, in order."""
    async with scripted_session() as on:
        calls = [
            call("conv_create", {"user_instruction": "one"}, "c1"),
            call("conv_list", {}, "list"),
            call("conv_create", {"user_instruction": "two"}, "c2"),
            call("update_plan", {"plan": [{"step": "wait", "status": "pending"}]}, "plan"),
        ]
        await on.says(say("", *calls), "one says", "two says", "done")
        assert on.tasks() == [
            ("A", "user"), ("A", "replaced"), ("B", "target"), ("B", "completed"), ("C", "target"), ("C", "completed"),
            ("A", "continuation"), ("A", "completed"),
        ]  # fmt: skip
        ended = [event.data.call_id for event in on.of("tool_call_end")]
        assert ended == ["list", "plan", "c1", "c2"]
        (replaced,) = on.of("turn_aborted")
        before = {event.data.call_id for event in on.of("tool_call_end") if event.seq < replaced.seq}
        assert before == {"list", "plan"}
        outputs = [item.call_id for item in on.model.last_request.items if type(item).__name__ == "ToolOutput"]
        assert sorted(outputs) == ["c1", "c2", "list", "plan"]


async def test_a_message_is_answered_after_its_whole_chain_and_usage_is_its_sum() -> None:
    async with scripted_session() as on:
        on.then(create("x"), create("y"), "c", "b", "a")
        events = [event async for event in on.root.stream("go")]
        assert_order(events, ["task_started", "conversation_opened", "task_started", "task_complete", "task_complete"])
        assert {event.conversation_id for event in events} == set(on.ids()), "a stream shows the whole chain"
        assert events[-1].type == "task_complete"
        assert events[-1].conversation_id == on.root.id
        spent = sum(event.data.usage.total_tokens for event in events if event.type == "token_count")
        reply = await on.says(create("x"), "b", "a")
        counts = [event.data.usage.total_tokens for event in on.of("token_count")]
        assert len(counts) == 8
        assert sum(counts[:5]) == spent
        assert sum(counts[5:]) == reply.usage.total_tokens


async def test_a_second_message_waits_for_the_whole_chain() -> None:
    """Chains are first in, first out; nobody runs against an open call."""
    async with scripted_session() as on:
        gate = asyncio.Event()
        on.then(create(), say("child", gate=gate), "first done", "second done")
        first = asyncio.create_task(on.root.message("one"))
        await becomes(lambda: len(on.model.requests) == 2)
        second = asyncio.create_task(on.root.message("two"))
        other = await on.session.open()
        with pytest.raises(errors.BusyError):
            await other.message("now", if_busy="fail")
        assert on.root.info.status == "waiting"
        gate.set()
        assert ((await soon(first)).text, (await soon(second)).text) == ("first done", "second done")
        assert [what for who, what in on.tasks() if who == "A"] == [
            "user", "replaced", "continuation", "completed", "user", "completed",
        ]  # fmt: skip


async def test_steering_a_waiting_conversation_is_read_by_its_continuation_after_the_output() -> None:
    """X-13; steering an idle one is refused."""
    async with scripted_session() as on:
        with pytest.raises(errors.NotRunningError):
            await on.root.steer("nobody there")
        gate = asyncio.Event()
        on.then(create(), say("child", gate=gate), "done")
        running = asyncio.create_task(on.root.message("go"))
        await becomes(lambda: len(on.model.requests) == 2)
        await on.root.steer("by the way")
        gate.set()
        await soon(running)
        kinds = [type(item).__name__ for item in on.model.last_request.items]
        assert kinds[-2:] == ["ToolOutput", "UserMessage"]
        assert texts(on.model.last_request)[-1] == "by the way"


# ---- endings


async def test_a_target_that_fails_gives_its_error_and_what_it_had_said() -> None:
    """X-14: status failed, success false, partial text."""
    async with scripted_session() as on:
        failing = ScriptedReply(text="half a thought", error=ScriptedError("overloaded"))
        reply = await on.says(create(), failing, "I go on")
        payload = on.answer()
        assert (payload["ok"], payload["status"], payload["code"]) == (False, "failed", "model_error")
        assert "overloaded" in payload["reason"]
        assert payload["error"] == {"code": payload["code"], "message": payload["reason"]}
        assert payload["last_assistant_message"].startswith("half a")
        assert payload["conversation_id"] in on.ids()
        assert (reply.status, reply.text) == ("completed", "I go on")


async def test_a_target_that_takes_too_long_is_closed_with_timeout() -> None:
    async with scripted_session(limits={"target_timeout_s": 0.05}) as on:
        reply = await on.says(create(), say("never", gate=asyncio.Event()), "I go on")
        payload = on.answer()
        assert (payload["ok"], payload["code"], reply.text) == (False, "timeout", "I go on")
        assert ("B", "timeout") in on.tasks()


async def test_closing_the_running_target_lets_its_caller_go_on() -> None:
    """`closing or destroying a running target gives its caller {ok:false} and the caller goes on`."""
    async with scripted_session() as on:
        on.then(create(), say("never", gate=asyncio.Event()), "I go on")
        running = asyncio.create_task(on.root.message("go"))
        await becomes(lambda: len(on.model.requests) == 2)
        child = on.session.conversation(on.ids()[1])
        assert (await soon(child.close())).closed
        assert (await soon(running)).text == "I go on"
        assert on.refused()[0] == "closed"
        assert ("B", "interrupted") in on.tasks()


@pytest.mark.parametrize("who", [0, 1, 2])
async def test_interrupting_any_member_stops_the_whole_chain_and_closes_every_call(who: int) -> None:
    """X-15: without a model run, in history, under the task that made the call; the next message works."""
    async with scripted_session() as on:
        on.then(create("to B", "outer"), create("to C", "inner"), say("never", gate=asyncio.Event()))
        running = asyncio.create_task(on.root.message("go"))
        await becomes(lambda: len(on.model.requests) == 3)
        members = [on.session.conversation(id) for id in on.ids()]
        assert [member.info.status for member in members] == ["waiting", "waiting", "running"]
        assert (await members[who].interrupt()).interrupted
        assert (await soon(running)).status == "interrupted"
        assert len(on.model.requests) == 3
        made = {event.data.call_id: event.task_id for event in on.of("tool_call_begin")}
        ended = [(event.data.call_id, event.task_id) for event in on.of("tool_call_end")]
        assert ended == [("inner", made["inner"]), ("outer", made["outer"])]
        assert {payload["code"] for _, _, payload in on.answers()} == {"cancelled"}
        assert [member.info.status for member in members] == ["idle"] * 3
        assert (await on.says("fine", to=members[0])).text == "fine"
        assert (await on.says("fine", to=members[1])).text == "fine"


async def test_closing_a_waiting_conversation_drops_it_and_all_above_and_its_caller_goes_on() -> None:
    async with scripted_session() as on:
        on.then(create("to B", "outer"), create("to C", "inner"), say("never", gate=asyncio.Event()), "A goes on")
        running = asyncio.create_task(on.root.message("go"))
        await becomes(lambda: len(on.model.requests) == 3)
        _, b, c = on.ids()
        assert (await soon(on.session.conversation(b).close())).closed
        reply = await soon(running)
        assert (reply.status, reply.text) == ("completed", "A goes on")
        assert on.ids() == [on.root.id, c], "closing a parent leaves its children"
        ends = [(id, ok, payload["ok"], payload["code"]) for id, ok, payload in on.answers()]
        assert ends == [("inner", False, False, "cancelled"), ("outer", False, False, "closed")]
        made = {event.data.call_id: event.task_id for event in on.of("tool_call_begin")}
        ended = {event.data.call_id: event.task_id for event in on.of("tool_call_end")}
        continued = [event.task_id for event in on.of("task_started") if event.data.kind == "continuation"]
        assert ended == {"inner": made["inner"], "outer": continued[0]}


async def test_closing_a_waiting_first_conversation_ends_the_chain() -> None:
    async with scripted_session() as on:
        first = await on.session.open()
        on.then(create(), say("never", gate=asyncio.Event()))
        running = asyncio.create_task(first.message("go"))
        await becomes(lambda: len(on.model.requests) == 2)
        await soon(first.close())
        assert (await soon(running)).status == "interrupted"
        assert (await on.says("free")).text == "free"
        with pytest.raises(errors.ClosedError):
            on.session.conversation(first.id)


async def test_self_destroy_is_answered_and_ends_the_turn() -> None:
    """X-10: {ok:true}, turn_aborted{interrupted}; the waiting parent hears success=false and goes on."""
    async with scripted_session() as on:
        own: list[Callable[[Any], Any]] = [
            lambda request: use("conv_destroy", "self", conversation_id=on.ids()[1]),
        ]
        reply = await on.says(create(), *own, "I go on")
        (self_id, ok, _), (_, success, payload) = on.answers()
        assert (self_id, ok, success, payload["ok"]) == ("self", True, False, False)
        assert ("B", "interrupted") in on.tasks()
        assert (reply.text, on.ids()) == ("I go on", [on.root.id])


async def test_a_queued_target_that_another_destroys_is_answered_as_gone() -> None:
    async with scripted_session() as on:
        victim = await on.session.open()
        calls = [
            call("conv_create", {"user_instruction": "kill"}, "c1"),
            call("conv_send", {"conversation_id": victim.id, "text": "hello?"}, "c2"),
        ]
        killing = use("conv_destroy", "kill", conversation_id=victim.id)
        await on.says(say("", *calls), killing, "killed", "done")
        assert [(id, ok) for id, ok, _ in on.answers()] == [("kill", True), ("c1", True), ("c2", False)]
        assert on.answer()["code"] == "closed"


async def test_closing_the_session_answers_every_call_of_a_chain() -> None:
    async with scripted_session() as on:
        on.then(create("to B", "outer"), create("to C", "inner"), say("never", gate=asyncio.Event()))
        running = asyncio.create_task(on.root.message("go"))
        await becomes(lambda: len(on.model.requests) == 3)
        await soon(on.session.close())
        assert (await soon(running)).status == "interrupted"
        await becomes(lambda: len(on.of("tool_call_end")) == 2)
        assert ("C", "shutdown") in on.tasks()


# ---- refusals: before any side effect


async def refusal_of(on: ScriptedSession, reply: Any, to: tertulia.Conversation | None = None) -> tuple[str, str]:
    """(code, reason) of a call that must leave nothing behind but its own error."""
    ids = on.ids()
    on.told.clear()
    assert (await on.says(reply, "went on", to=to)).text == "went on"
    assert on.ids() == ids
    assert [what for _, what in on.tasks()] == ["user", "completed"], "no interrupt"
    assert not on.of("conversation_opened", "conversation_closed", "error")
    return on.refused()


@pytest.mark.parametrize("tool", ["conv_send", "conv_history", "conv_destroy"])
@each_row("target", ["x", "", NOBODY, "0", "../root", "ROOT", "róot\u202e", "a" * 5_000, "\x00"])
async def test_an_unknown_or_malformed_id_is_not_found(tool: str, target: str) -> None:
    """S004-12, S004-28, X-08, X-71."""
    async with scripted_session() as on:
        extra = {"text": "hi"} if tool == "conv_send" else {}
        refused = await refusal_of(on, use(tool, conversation_id=target, **extra))
        assert refused == ("not_found", "conversation not found")


async def test_root_self_closed_and_waiting_are_refused_each_with_its_code() -> None:
    """X-10, X-11, X-71."""
    async with scripted_session() as on:
        gone = await on.session.open()
        await gone.close()
        assert (await refusal_of(on, send(gone.id)))[0] == "closed"
        assert (await refusal_of(on, use("conv_history", conversation_id=gone.id)))[0] == "closed"
        assert (await refusal_of(on, use("conv_destroy", conversation_id=gone.id)))[0] == "not_found"
        for name in (on.root.id, "root"):
            code, reason = await refusal_of(on, use("conv_destroy", conversation_id=name))
            assert (code, "root" in reason) == ("invalid_params", True)
            assert await refusal_of(on, send(name)) == ("awaiting_result", "conversation is awaiting a tool result")
        on.told.clear()
        reply = await on.says(create(), send(on.root.id, "up"), use("conv_destroy", "kill", conversation_id="root"),
                              "child", "done")  # fmt: skip
        codes = {id: payload.get("code") for id, _, payload in on.answers()}
        assert codes == {"up": "awaiting_result", "kill": "invalid_params", "c1": None}
        assert reply.text == "done"


@each_row(
    ("arguments", "says"),
    [
        ({}, "user_instruction"),
        ({"user_instruction": ""}, "user_instruction"),
        ({"items": []}, "items"),
        ({"base_instruction_text": "be"}, "user_instruction or items"),
        ({"user_instruction": "x", "mcp_allowlist": ["not a name!"]}, "server__tool"),
        ({"user_instruction": "x", "internal_tools": {"include_plan_tool": "yes"}}, "include_plan_tool"),
        ({"user_instruction": "x", "model": "scripted/nowhere.json"}, "nowhere.json"),
        ({"user_instruction": "x", "base_instruction_text": "a", "base_instruction_file": "b"}, "mutually exclusive"),
        ({"user_instruction": "x", "base_instruction_file": "/etc/passwd"}, "workspace"),
        ({"user_instruction": "x", "base_instruction_file": "../../etc/passwd"}, "workspace"),
        ({"user_instruction": "x", "base_instruction_file": "missing.md"}, "missing.md"),
        ({"user_instruction": "x", "mcp_allowlist": ["no__such"]}, "no__such"),
        ({"user_instruction": "x", "mcp_allowlist": "all"}, "mcp_allowlist"),
        ({"user_instruction": "x", "internal_tools": {"rm": True}}, "rm"),
        ({"user_instruction": "x", "sandbox": "danger-full-access"}, "sandbox"),
        ({"user_instruction": "x", "approval_policy": "never"}, "approval_policy"),
        ({"user_instruction": "x", "parent_id": "root"}, "parent_id"),
        ({"user_instruction": "x", "model": "nobody/model"}, "nobody"),
        ({"user_instruction": "x", "backend": "nobody"}, "nobody"),
        ({"user_instruction": "x", "title": "t" * 201}, "title"),
        ({"user_instruction": "x", "fork_history": 0}, "fork_history"),
        ({"user_instruction": "x", "fork_history": -1}, "fork_history"),
        ({"user_instruction": "x", "fork_history": True}, "fork_history"),
        ({"user_instruction": "x", "fork_history": "some"}, "fork_history"),
        ({"items": [{"type": "image", "image_url": "file:///etc/passwd"}]}, "image_url"),
        ({"items": [{"type": "image", "image_url": "http://plain"}]}, "image_url"),
        ({"items": [{"type": "local_image", "path": "/etc/passwd"}]}, "passwd"),
        ({"items": [{"type": "rm"}]}, "items"),
        ({"items": [{"type": "text"}]}, "text"),
    ],
)
async def test_a_conversation_that_cannot_be_opened_leaves_nothing_behind(arguments: dict[str, Any], says: str) -> None:
    """S004-29, S004-30, S004-31, S004-32, X-09, S000-29: every check precedes every side effect."""
    async with scripted_session() as on:
        code, reason = await refusal_of(on, use("conv_create", **arguments))
        assert code == "invalid_params"
        assert says in reason


@each_row("limit", [0, -1, "x", 1.5, None, True, [], 10**30])
async def test_a_limit_is_a_whole_number_from_one_on(limit: Any) -> None:
    """S004-10; a number larger than any history is all of it."""
    async with scripted_session() as on:
        asking = use("conv_history", conversation_id=on.root.id, limit=limit)
        if limit == 10**30:
            await on.says(asking, "ok")
            assert on.answer()["ok"] in (True, False)
        else:
            assert (await refusal_of(on, asking))[0] == "invalid_params"


async def test_in_a_mixed_batch_valid_calls_run_and_refused_ones_say_why() -> None:
    async with scripted_session() as on:
        calls = [
            call("conv_send", {"conversation_id": NOBODY, "text": "?"}, "bad"),
            call("conv_create", {"user_instruction": "x"}, "good"),
            call("rm_rf", {}, "none"),
            call("conv_create", {"user_instruction": "twice"}, "good"),
        ]
        await on.says(say("", *calls), "child", "done")
        assert {id: ok for id, ok, _ in on.answers()} == {"bad": False, "none": False, "good": True}
        assert {id: payload.get("code") for id, _, payload in on.answers()}["none"] == "not_found"
        assert len(on.of("warning")) == 1, "the second call of one id is dropped with a warning"
        assert len(on.ids()) == 2


# ---- limits


async def test_depth_eight_means_eight_children_and_the_ninth_is_refused() -> None:
    """X-16: at the greatest depth the interrupting tools are not offered."""
    async with scripted_session() as on:
        on.then(*(create(f"level {level}", f"c{level}") for level in range(1, 10)))
        reply = await soon(on.root.message("go"))
        assert reply.status == "completed"
        assert len(on.ids()) == 9
        payloads = {id: payload for id, _, payload in on.answers()}
        assert (payloads["c9"]["ok"], payloads["c9"]["code"]) == (False, "depth_exceeded")
        assert "max_interrupt_chain_depth" in payloads["c9"]["reason"]
        assert all(payloads[f"c{level}"]["ok"] for level in range(1, 9))
        deepest = offered(on.model.requests[8])
        assert not {"conv_create", "conv_send"} & set(deepest)
        assert {"conv_list", "conv_history", "conv_destroy"} <= set(deepest)
        assert {"conv_create", "conv_send"} <= set(offered(on.model.requests[7]))
        assert {"conv_create", "conv_send"} <= set(offered(on.model.last_request)), "back at the top they are again"


@each_row(
    ("limit", "code", "per_answer"),
    [("max_chain_conversations", "limit", 1), ("max_task_interrupts", "limit", 1), ("max_conversations", "limit", 1),
     ("max_chain_conversations", "limit", 4), ("max_task_interrupts", "limit", 4), ("max_conversations", "limit", 4)],
)  # fmt: skip
async def test_every_cap_is_configurable_and_named_and_the_next_message_works(
    limit: str, code: str, per_answer: int
) -> None:
    async with scripted_session(limits={limit: 3}) as on:
        ids = iter(f"c{number}" for number in range(100))
        if per_answer == 1:
            for _ in range(4):
                on.then(create(call_id=next(ids)), *(["child"] if len(on.script) < 6 else []))
        else:
            calls = [call("conv_create", {"user_instruction": "x"}, next(ids)) for _ in range(4)]
            on.then(say("", *calls), "1", "2", "3")
        reply = await on.says("done")
        assert reply.text == "done"
        payloads = [payload for _, _, payload in on.answers()]
        assert [payload["ok"] for payload in sorted(payloads, key=lambda payload: not payload["ok"])] == [True] * 3 + [
            False
        ]
        (refused,) = (payload for payload in payloads if not payload["ok"])
        assert (refused["code"], limit in refused["reason"]) == (code, True)
        assert len(on.ids()) == 4
        assert (await on.says("still there")).text == "still there"


# ---- rights


async def rights_of(on: ScriptedSession, id: str) -> Any:
    return await on.session.conversation(id).context()


async def test_a_child_inherits_from_its_caller_and_never_from_root() -> None:
    """S004-21, X-05, S000-19."""
    async with scripted_session(sandbox="danger-full-access", approval_policy="on-failure") as on:
        caller = await on.session.open(
            base_instructions="Be brief.", user_instructions="Speak Spanish.", sandbox="read-only",
            approval_policy="untrusted", storage_policy="headers_only", include_plan_tool=False, visibility="subtree",
            limits={"max_output_bytes": 4_000},
        )  # fmt: skip
        wide = {"include_plan_tool": True, "include_apply_patch_tool": True}
        await on.says(create(internal_tools=wide), "child", "done", to=caller)
        child = await rights_of(on, on.ids()[2])
        assert child.policy == (await caller.context()).policy
        assert (child.base_instructions, child.user_instructions) == ("Be brief.", "Speak Spanish.")
        assert child.limits["max_output_bytes"] == 4_000
        assert child.tools_prefs["include_plan_tool"] is False
        (cut,) = (cut for cut in child.narrowed if cut.field == "include_plan_tool")
        assert (cut.asked, cut.given, cut.because) == (True, False, f"ancestor:{caller.id}")
        assert on.of("background_event"), "what was asked and what was given is said"
        words = texts(on.model.requests[1])
        assert [text for text in words if "Speak Spanish." in text] == [words[0]], "seeded once, first (X-06)"


async def test_a_partial_internal_tools_overrides_only_its_keys() -> None:
    """S004-03."""
    async with scripted_session() as on:
        await on.says(create(internal_tools={"include_plan_tool": False}), "child", "done")
        assert "update_plan" not in offered(on.model.requests[1])
        assert "conv_create" in offered(on.model.requests[1])
        await on.says(create(internal_tools={"include_conv_tools": False}), "child", "done")
        assert "update_plan" in offered(on.model.requests[4])
        assert not set(CONV_TOOLS) & set(offered(on.model.requests[4]))


async def test_base_instructions_come_from_text_or_file_or_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S004-03: the file is relative to the turn's directory."""
    (tmp_path / "role.md").write_text("You are a critic.")
    monkeypatch.chdir(tmp_path)
    async with scripted_session() as on:
        caller = await on.session.open(base_instructions="Mother.", cwd=str(tmp_path))
        for arguments, expected in (
            ({"base_instruction_text": "You count."}, "You count."),
            ({"base_instruction_file": "role.md"}, "You are a critic."),
            ({}, "Mother."),
        ):
            await on.says(create(**arguments), "child", "done", to=caller)
            assert (await rights_of(on, on.ids()[-1])).base_instructions == expected
            assert on.model.requests[-2].request.instructions == expected, "nothing is appended (S000-12)"


SUBTREE = {
    "conv_list": lambda other: {},
    "conv_history": lambda other: {"conversation_id": other},
    "conv_send": lambda other: {"conversation_id": other, "text": "hi"},
    "conv_destroy": lambda other: {"conversation_id": other},
}


@each_row("tool", SUBTREE)
@pytest.mark.parametrize("inherited", [False, True])
async def test_a_subtree_sees_only_its_own(tool: str, inherited: bool) -> None:
    """All four tools, and children inherit it; what is out of sight is as what never was."""
    async with scripted_session() as on:
        stranger = await on.session.open(title="stranger")
        caller = await on.session.open(visibility="subtree")
        looking = use(tool, "look", **SUBTREE[tool](stranger.id))
        script = [create(), looking, "child", "done"] if inherited else [looking, "done"]
        on.told.clear()
        await on.says(*script, to=caller)
        look = {id: payload for id, _, payload in on.answers()}["look"]
        if tool == "conv_list":
            ids = [entry["id"] for entry in look["conversations"]]
            assert ids == ([on.ids()[-1]] if inherited else [caller.id])
            assert [entry["parent_id"] for entry in look["conversations"]] == [None]
        else:
            assert (look["ok"], look["code"], look["reason"]) == (False, "not_found", "conversation not found")
        assert stranger.id in on.ids()
        if not inherited:
            await on.says(create(), "child", "done", to=caller)
            await on.says(use(tool, "own", **SUBTREE[tool](on.ids()[-1])), "again", "done", to=caller)
            assert {id: ok for id, ok, _ in on.answers()}["own"] is True


async def test_while_a_chain_runs_the_strictest_of_it_holds() -> None:
    """HARDENING B11: a narrow caller gains nothing by asking a wide one, which is itself again afterwards."""
    async with scripted_session() as on:
        wide = await on.session.open()
        narrow = await on.session.open(include_plan_tool=False)
        await on.says(send(wide.id), "as you wish", "done", to=narrow)
        assert "update_plan" not in offered(on.model.requests[1])
        await on.says("mine", to=wide)
        assert "update_plan" in offered(on.model.last_request)


# ---- beyond the documents


@each_row(
    ("fork", "sees"),
    [(None, []), ("none", []), ("all", ["one", "uno", "two", "dos", "three"]), (2, ["two", "dos", "three"]),
     (1, ["three"]), (99, ["one", "uno", "two", "dos", "three"])],
)  # fmt: skip
async def test_a_child_may_begin_with_a_part_of_its_callers_history(fork: Any, sees: list[str]) -> None:
    """It ends before the open call."""
    async with scripted_session() as on:
        await on.says("uno", text="one")
        await on.says("dos", text="two")
        extra = {} if fork is None else {"fork_history": fork}
        await on.says(create("child task", **extra), "child", "done", text="three")
        request = on.model.requests[3]
        assert [text for text in texts(request) if not text.startswith("<")] == [*sees, "child task"]
        assert not [item for item in request.items if type(item).__name__ in ("ToolCall", "ToolOutput")]
        assert on.root.info.message_count == 6


async def test_a_child_may_have_a_model_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"replies": ["other words"]}))
    monkeypatch.chdir(tmp_path)
    async with scripted_session() as on:
        await on.says(create(model="scripted/other.json", backend="native"), "done")
        assert on.answer()["last_assistant_message"] == "other words"
        assert on.session.conversation(on.ids()[1]).info.model == "scripted/other.json"


@pytest.mark.parametrize("policy", ["headers_only", "none"])
async def test_the_answer_of_a_strict_child_is_not_stored_by_a_full_caller(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage travels; what the caller then says itself is stored by its own policy."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    async with scripted_session() as on:
        strict = await on.session.open(storage_policy=policy)
        await on.says(send(strict.id), "CANARY answer", "OWN words")
        assert "CANARY" in on.answer()["last_assistant_message"]
        await on.says(use("conv_history", "look", conversation_id=strict.id), "I have read it")
        assert "CANARY" in json.dumps(on.answer())
    text = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"OWN words" in text
    assert b"CANARY" not in text


@pytest.mark.parametrize("field", ["user_instruction", "title", "base_instruction_text"])
async def test_what_a_strict_caller_has_another_say_to_its_child_is_not_stored(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B11 for storage: strict → full → child of full. All that is made on behalf of the strict one is a header."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    async with scripted_session() as on:
        strict = await on.session.open(storage_policy="headers_only")
        full = await on.session.open()
        asking = use("conv_create", "deep", **{"user_instruction": "task", field: "CANARY text"})
        await on.says(send(full.id), asking, "child", "full", "strict", to=strict)
        assert len(on.ids()) == 4
    text = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"CANARY" not in text
