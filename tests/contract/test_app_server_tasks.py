"""Messages and tasks over the wire: answers, order, busy, detach, steering, stopping, events and replay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import NEVER_MS, Refused, Server, is_event, serving

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ENVELOPE = {
    "epoch", "seq", "ts", "type", "session_id", "sub_id", "conversation_id", "task_id", "trace_id", "span_id", "data",
}  # fmt: skip
USAGE = {"input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens"}
NEVER = {"text": "never", "delay_ms": NEVER_MS}
PLAN = {"plan": [{"step": "Look", "status": "in_progress"}]}
NOBODY = "00000000-0000-4000-8000-000000000000"


async def start(server: Server, conversation: str = "root", **params: Any) -> tuple[int, str]:
    """Send a message that will not end by itself; the request's id and the task's."""
    position = len(server.lines)
    request = await server.ask("conversation/message", conversation_id=conversation, text="Go", **params)
    return request, (await server.event("task_started", position))["task_id"]


# ---- answers


async def test_a_message_answers_with_everything_the_page_lists(tmp_path: Path) -> None:
    """S002-47."""
    usage = {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 7, "reasoning_output_tokens": 2}
    reply = {"text": "Good morning.", "usage": {**usage, "total_tokens": 37}}
    async with serving(tmp_path, [reply]) as server:
        answer = await server.say("Hello", sender="Ana", task_type="chat", previous_result="nothing")
        assert {
            "task_id", "status", "last_assistant_message", "usage", "tool_calls", "duration_ms", "trace_id",
        } <= set(answer)  # fmt: skip
        assert answer["status"] == "completed"
        assert answer["last_assistant_message"] == "Good morning."
        assert answer["usage"] == {**usage, "total_tokens": 37}
        assert answer["tool_calls"] == 0
        assert type(answer["duration_ms"]) is int
        assert answer["trace_id"]
        assert answer.get("error") is None


async def test_a_failed_task_is_a_result_and_not_an_error(tmp_path: Path) -> None:
    """`error`, then task_complete{failed}."""
    async with serving(tmp_path, [{"error": "The provider is overloaded"}, "Back."]) as server:
        answer = await server.say("Hello")
        assert answer["status"] == "failed"
        assert answer["error"]["code"] == "model_error"
        assert "overloaded" in answer["error"]["message"]
        assert server.types(answer["task_id"])[-2:] == ["error", "task_complete"]
        events = [event for event in server.events if event["task_id"] == answer["task_id"]]
        assert events[-2]["data"]["code"] == "model_error"
        assert events[-2]["data"]["message"]
        assert events[-1]["data"]["status"] == "failed"
        assert (await server.say("Again"))["last_assistant_message"] == "Back."


async def test_a_task_past_its_time_fails_with_timeout(tmp_path: Path) -> None:
    async with serving(tmp_path, [NEVER]) as server:
        opened = await server.call("conversation/open", limits={"task_timeout_s": 0.05})
        answer = await server.say("Go", opened["conversation_id"])
        assert answer["status"] == "failed"
        assert answer["error"]["code"] == "timeout"
        assert server.types(answer["task_id"])[-1] == "turn_aborted"
        assert (await server.event("turn_aborted"))["data"]["reason"] == "timeout"
        assert "task_complete" not in server.types(answer["task_id"])


async def test_the_same_message_id_gets_the_same_answer_and_not_a_second_run(tmp_path: Path) -> None:
    async with serving(tmp_path, ["First.", "Second."]) as server:
        first = await server.say("Hello", message_id="m1")
        assert await server.say("Hello", message_id="m1") == first
        other = await server.say("Hello", message_id="m2")
        assert other["last_assistant_message"] == "Second."
        assert len([event for event in server.events if event["type"] == "task_started"]) == 2


async def test_a_detached_message_answers_at_once_with_its_task(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Done."]) as server:
        answer = await server.say("Go", detach=True)
        assert set(answer) == {"task_id"}
        complete = await server.event("task_complete", task_id=answer["task_id"])
        assert complete["data"]["last_assistant_message"] == "Done."
        task = await server.call("task/get", task_id=answer["task_id"])
        assert task["task_id"] == answer["task_id"]


# ---- single flight


async def test_nothing_waits_for_a_running_message_but_the_next_message(tmp_path: Path) -> None:
    """S002-35: a running message never blocks list, interrupt or close; the next one waits its turn."""
    async with serving(tmp_path, [NEVER, "Second."]) as server:
        other = (await server.call("conversation/open"))["conversation_id"]
        running, task = await start(server)
        waiting = await server.ask("conversation/message", conversation_id=other, text="And me?")
        listed = (await server.call("conversation/list"))["conversations"]
        assert listed[0]["status"] == "running"
        await server.call("conversation/history", conversation_id="root")
        await server.call("conversation/context", conversation_id=other)
        assert not [line for line in server.lines if not is_event(line) and line.get("id") in {running, waiting}]

        assert await server.call("conversation/interrupt", conversation_id="root") == {"interrupted": True}
        assert (await server.answer(running))["status"] == "interrupted"
        assert (await server.answer(waiting))["last_assistant_message"] == "Second."
        assert server.types(task)[-1] == "turn_aborted"
        order = [event["type"] for event in server.events if event["type"] in {"turn_aborted", "task_started"}]
        assert order == ["task_started", "turn_aborted", "task_started"]
        assert (await server.call("conversation/list"))["conversations"][0]["status"] == "idle"


async def test_if_busy_fail_is_refused_with_advice_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """X-37: −32001 with retry advice; the session's slot counts, not the conversation's."""
    async with serving(tmp_path, [NEVER, "Free."]) as server:
        other = (await server.call("conversation/open"))["conversation_id"]
        running, _ = await start(server)
        with pytest.raises(Refused) as caught:
            await server.say("Quick", other, if_busy="fail")
        assert (caught.value.number, caught.value.code) == (-32001, "busy")
        assert any("retry" in key for key in caught.value.data), "with retry advice"
        assert (await server.call("conversation/history", conversation_id=other))["entries"] == []
        await server.call("conversation/interrupt", conversation_id="root")
        await server.answer(running)
        assert (await server.say("Quick", other, if_busy="fail"))["last_assistant_message"] == "Free."


async def test_interrupting_the_idle_and_steering_the_idle(tmp_path: Path) -> None:
    async with serving(tmp_path, []) as server:
        assert await server.call("conversation/interrupt", conversation_id="root") == {"interrupted": False}
        with pytest.raises(Refused) as caught:
            await server.call("conversation/steer", conversation_id="root", text="Faster")
        assert (caught.value.number, caught.value.code) == (-32000, "not_running")


async def test_what_is_steered_into_a_running_task_belongs_to_it(tmp_path: Path) -> None:
    replies = [{"text": "Thinking.", "delay_ms": 1_000}, {"match": "Faster", "text": "Quick."}]
    async with serving(tmp_path, replies) as server:
        running, task = await start(server)
        await server.call("conversation/steer", conversation_id="root", text="Faster")
        answer = await server.answer(running)
        assert answer["last_assistant_message"] == "Quick."
        assert answer["task_id"] == task
        history = await server.call("conversation/history", conversation_id="root")
        assert [entry["text"] for entry in history["entries"]] == ["Go", "Thinking.", "Faster", "Quick."]


async def test_closing_a_running_conversation_interrupts_it(tmp_path: Path) -> None:
    """S002-48."""
    async with serving(tmp_path, [NEVER]) as server:
        conversation = (await server.call("conversation/open"))["conversation_id"]
        running, task = await start(server, conversation)
        closed = await server.call("conversation/close", conversation_id=conversation, timeout_s=5)
        assert closed == {"closed": True, "already_closed": False, "forced": False}
        assert (await server.answer(running))["status"] == "interrupted"
        aborted = await server.event("turn_aborted", task_id=task)
        assert aborted["data"]["reason"] == "interrupted"


# ---- tasks


async def test_tasks_are_listed_shown_and_cancelled(tmp_path: Path) -> None:
    """S002-09."""
    async with serving(tmp_path, [NEVER]) as server:
        root = (await server.call("session/info"))["root_conversation_id"]
        assert await server.call("task/list") == {"tasks": []}
        running, task = await start(server)
        (entry,) = (await server.call("task/list"))["tasks"]
        assert {"task_id", "conversation_id", "kind", "started_at", "chain"} <= set(entry)
        assert (entry["task_id"], entry["conversation_id"], entry["kind"]) == (task, root, "user")
        assert RFC3339.fullmatch(entry["started_at"])
        shown = await server.call("task/get", task_id=task)
        assert shown["task_id"] == task
        assert shown["conversation_id"] == root
        await server.call("task/cancel", task_id=task)
        answer = await server.answer(running)
        assert answer["status"] == "interrupted"
        assert answer["task_id"] == task
        assert server.types(task)[-1] == "turn_aborted"
        assert await server.call("task/list") == {"tasks": []}
        for method in ("task/get", "task/cancel"):
            with pytest.raises(Refused) as caught:
                await server.call(method, task_id=NOBODY)
            assert (caught.value.number, caught.value.code) == (-32000, "not_found")


async def test_a_task_that_has_ended_still_says_when_it_began(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hi."]) as server:
        answer = await server.say("Hello")
        shown = await server.call("task/get", task_id=answer["task_id"])
        assert RFC3339.fullmatch(shown["started_at"])


async def test_whoever_has_a_thousand_messages_waiting_can_still_stop(tmp_path: Path) -> None:
    """A running message never blocks list, interrupt or close; retry advice that cannot help is none."""
    async with serving(tmp_path, [NEVER, "Hi."]) as server:
        await start(server)
        for number in range(1_100):
            await server.ask("conversation/message", conversation_id="root", text=str(number))
        await server.call("conversation/list")
        assert await server.call("conversation/interrupt", conversation_id="root") == {"interrupted": True}
        await server.call("session/close")


# ---- events


async def test_every_event_of_a_task_comes_before_the_answer_to_its_message(tmp_path: Path) -> None:
    """S002-42, S002-43, S000-46."""
    calls = [{"name": "update_plan", "arguments": PLAN, "call_id": "c1"}]
    replies = [{"reasoning": "Hm.", "text": "I plan.", "tool_calls": calls}, "All done now."]
    async with serving(tmp_path, replies) as server:
        answer = await server.say("Plan it")
        assert server.lines[-1]["result"] == answer
        events = [event for event in server.events if event["task_id"] == answer["task_id"]]
        types = [event["type"] for event in events]
        assert types[0] == "task_started"
        assert types[-1] == "task_complete"
        assert types.count("task_started") == types.count("task_complete") == 1
        assert types.count("token_count") == 2
        order = ["agent_reasoning", "agent_message", "tool_call_begin", "plan_update", "tool_call_end"]
        assert [types.index(name) for name in order] == sorted(types.index(name) for name in order)
        assert answer["tool_calls"] == 1
        for event in server.events:
            assert set(event) == ENVELOPE
            assert RFC3339.fullmatch(event["ts"])
            assert isinstance(event["epoch"], int)
            assert event["sub_id"]
        assert {event["trace_id"] for event in events} == {answer["trace_id"]}
        assert len({event["sub_id"] for event in events}) == 1

        by_type = {event["type"]: event["data"] for event in events}
        assert by_type["task_started"] == {"kind": "user", "input_preview": "Plan it"}
        assert by_type["agent_message"]["text"] == "All done now."
        assert by_type["agent_reasoning"]["text"] == "Hm."
        assert {"usage", "context_window", "cache_key"} <= set(by_type["token_count"])
        assert set(by_type["token_count"]["usage"]) == USAGE
        assert by_type["tool_call_begin"]["call_id"] == by_type["tool_call_end"]["call_id"] == "c1"
        end = by_type["tool_call_end"]
        assert {"call_id", "name", "success", "output", "truncated", "duration_ms"} <= set(end)
        assert (end["name"], end["success"], end["truncated"]) == ("update_plan", True, False)
        assert type(end["duration_ms"]) is int
        complete = by_type["task_complete"]
        assert complete["status"] == "completed"
        assert complete["last_assistant_message"] == "All done now."
        assert complete["usage"] == answer["usage"]


async def test_durable_events_have_numbers_without_a_gap_and_deltas_have_a_place(tmp_path: Path) -> None:
    """G4."""
    async with serving(tmp_path, ["One two three four."] * 3) as server:
        for _ in range(3):
            await server.say("Go")
        durable = [event["seq"] for event in server.events if event["seq"] is not None]
        assert durable == list(range(1, len(durable) + 1))
        deltas = [event for event in server.events if event["seq"] is None]
        assert {event["type"] for event in deltas} == {"agent_message_delta"}
        for answer in {event["task_id"] for event in deltas}:
            text = ""
            for event in deltas:
                if event["task_id"] == answer:
                    assert event["data"]["offset"] == len(text)
                    assert event["data"]["item_id"]
                    text += event["data"]["text"]
            assert text == "One two three four."


async def test_subscribing_from_a_number_replays_what_came_after_it(tmp_path: Path) -> None:
    async with serving(tmp_path, ["Hello."]) as server:
        await server.say("Hi")
        first = {event["seq"]: event for event in server.events if event["seq"]}
        last = max(first)
        start = len(server.lines)
        await server.call("events/subscribe", after_seq=2)
        await server.until(lambda line: is_event(line) and line["params"]["seq"] == last, start)
        again = [line["params"] for line in server.lines[start:] if is_event(line)]
        assert again == [first[number] for number in range(3, last + 1)]


async def test_subscribing_to_one_conversation_replaces_the_subscription_to_all(tmp_path: Path) -> None:
    async with serving(tmp_path, ["1", "2", "3"]) as server:
        conversation = (await server.call("conversation/open"))["conversation_id"]
        await server.call("events/subscribe", conversation_id=conversation)
        start = len(server.lines)
        await server.say("To the root")
        await server.say("To the other", conversation)
        seen = [line["params"] for line in server.lines[start:] if is_event(line)]
        assert {event["conversation_id"] for event in seen} == {conversation}
        assert [event["type"] for event in seen if event["seq"]][-1] == "task_complete"
        await server.call("events/subscribe")
        start = len(server.lines)
        await server.say("To the root")
        seen = [line["params"] for line in server.lines[start:] if is_event(line)]
        assert [event["type"] for event in seen].count("task_complete") == 1, "one subscription, not two"
        for wrong in (NOBODY, ""):
            with pytest.raises(Refused) as caught:
                await server.call("events/subscribe", conversation_id=wrong)
            assert caught.value.code in {"not_found", "invalid_params"}


async def test_a_tool_that_is_not_there_and_broken_arguments_do_not_end_the_task(tmp_path: Path) -> None:
    calls = [
        {"name": "nothing", "arguments": {}, "call_id": "a"},
        {"name": "update_plan", "arguments": "{broken", "call_id": "b"},
        {"name": "update_plan", "arguments": PLAN, "call_id": "c"},
        {"name": "update_plan", "arguments": PLAN, "call_id": "c"},
    ]
    async with serving(tmp_path, [{"tool_calls": calls}, "Done."]) as server:
        answer = await server.say("Go")
        assert (answer["status"], answer["last_assistant_message"]) == ("completed", "Done.")
        ends = {event["data"]["call_id"]: event["data"] for event in server.events if event["type"] == "tool_call_end"}
        assert {id: end["success"] for id, end in ends.items()} == {"a": False, "b": False, "c": True}
        begins = [event["data"]["call_id"] for event in server.events if event["type"] == "tool_call_begin"]
        assert sorted(begins) == ["a", "b", "c"]
        assert [event for event in server.events if event["type"] == "warning"], "a repeated call id is told"
