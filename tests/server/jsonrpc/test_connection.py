"""One client and its connection: hello, requests side by side, events, goodbye."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.models.scripted.script import say
from tertulia.server.jsonrpc import connection, request_runner
from tertulia.session.host import Host
from tertulia.session.operations import OperationResult
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__
from tests.deadlines import HANG_S
from tests.guards import SessionWatch
from tests.server.client import Client, connected, is_event, model, ticks


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Any:
    watch = SessionWatch(monkeypatch)
    yield
    watch.check()


# ── hello ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_initialize_answers_with_versions_ids_and_what_session_info_says() -> None:
    async with connected(initialize=False) as client:
        hello = await client.initialize()
        assert hello["server"] == {"name": "tertulia", "version": __version__}
        assert hello["version"] == __version__
        info = await client.call("session/info")
        assert {name: hello[name] for name in info} == info
        assert set(info) >= {"session_id", "root_conversation_id", "protocol_version", "policy", "model", "mcp"}


async def test_the_events_of_the_own_session_follow_from_the_first_on() -> None:
    async with connected() as client:
        await client.event("session_configured")
        assert [event["seq"] for event in client.events()][:2] == [1, 2]
        assert not is_event(client.sink.messages[0]), "the answer comes first, so that the client knows the session"


@pytest.mark.parametrize("version", ["0", "999", "2026-01-01", "", "ünï"])
async def test_an_unknown_protocol_version_is_answered_with_ours(version: str) -> None:
    """D16."""
    async with connected(initialize=False) as client:
        hello = await client.call("initialize", client={"name": "x", "version": "1"}, protocol_version=version)
        assert hello["protocol_version"] == "1"


async def test_who_does_not_wait_for_the_answer_to_initialize_is_served_all_the_same() -> None:
    async with connected(initialize=False) as client:
        first = await client.ask("initialize", client={"name": "x"})
        second = await client.ask("conversation/list")
        assert "result" in await client.answer(first)
        assert "result" in await client.answer(second)


async def test_initialize_may_stand_in_a_batch_before_what_needs_it() -> None:
    async with connected(initialize=False) as client:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        await client.send([hello, {"jsonrpc": "2.0", "id": 2, "method": "conversation/list"}])
        answers = await client.sink.until(lambda m: isinstance(m, list))
        assert {a["id"] for a in answers if "result" in a} == {1, 2}


async def test_initialized_is_accepted_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as client:
        await client.send({"jsonrpc": "2.0", "method": "initialized"})
        await client.call("conversation/list")
        assert caplog.records == []


async def test_an_initialize_that_failed_can_be_repeated() -> None:
    host = Host(Settings(model="nobody/knows"))
    client = Client(host)
    error = await client.fail("initialize")
    assert error["data"]["code"] == "invalid_params"
    assert (await client.fail("conversation/list"))["code"] == -32002
    host.settings = Settings(model=model())
    await client.initialize()
    await client.connection.close(1)


# ── the operation set ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_conversation_is_opened_answered_read_and_closed() -> None:
    async with connected(["I am well."]) as client:
        opened = await client.call("conversation/open", base_instructions="You are brief.", title="first")
        id = opened["conversation_id"]
        reply = await client.call("conversation/message", conversation_id=id, text="How are you?")
        assert (reply["status"], reply["last_assistant_message"]) == ("completed", "I am well.")
        assert reply["usage"]["total_tokens"] > 0
        entries = (await client.call("conversation/history", conversation_id=id))["entries"]
        assert [(entry["role"], entry["text"]) for entry in entries] == [
            ("user", "How are you?"),
            ("assistant", "I am well."),
        ]
        assert await client.call("conversation/close", conversation_id=id) == {
            "closed": True,
            "already_closed": False,
            "forced": False,
        }
        assert (await client.call("conversation/close", conversation_id=id))["already_closed"]
        assert (await client.fail("conversation/context", conversation_id=id))["data"]["code"] == "closed"


async def test_names_in_camel_case_are_understood() -> None:
    """S000-35."""
    async with connected() as client:
        opened = await client.call("conversation/open", baseInstructions="Be brief.")
        context = await client.call("conversation/context", conversationId=opened["conversation_id"])
        assert context["base_instructions"] == "Be brief."
        assert "result" in await client.answer(await client.ask("session/info", sessionId=client.session_id))


async def test_a_failed_task_is_a_result_and_not_an_error() -> None:
    async with connected([tertulia.errors.ModelError("out of order")]) as client:
        reply = await client.call("conversation/message", conversation_id="root", text="hi")
        assert reply["status"] == "failed"
        assert reply["error"]["code"] == "model_error"


async def test_a_notification_is_carried_out_and_not_answered() -> None:
    async with connected() as client:
        before = len(client.sink.sent)
        await client.send({"jsonrpc": "2.0", "method": "conversation/open", "params": {"title": "quiet"}})
        listed = await client.call("conversation/list")
        assert [conversation["title"] for conversation in listed["conversations"]] == [None, "quiet"]
        assert len([m for m in client.sink.messages[before:] if not is_event(m)]) == 1


async def test_a_notification_that_fails_is_logged_and_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as client:
        before = len(client.sink.sent)
        for line in (
            {"method": "no/such"},
            {"method": "conversation/list", "params": [1]},
            {"method": "conversation/message", "params": {"conversation_id": "nobody", "text": "hi"}},
        ):
            await client.send({"jsonrpc": "2.0", **line})
        await client.call("conversation/list")
        assert len([m for m in client.sink.messages[before:] if not is_event(m)]) == 1
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        assert "method_not_found" in caplog.text
        assert "not_found" in caplog.text


async def test_a_fault_of_ours_is_answered_logged_and_survived(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    async with connected() as client:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "call", broken)
            error = await client.fail("conversation/list")
        assert (error["code"], error["data"]) == (-32000, {"code": "internal"})
        assert "secret" not in error["message"]
        assert "ZeroDivisionError: secret detail" in caplog.text
        caplog.clear()  # its traceback would keep the session alive
        await client.call("conversation/list")


async def test_an_answer_that_cannot_be_encoded_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def strange(*_: Any) -> Any:
        return OperationResult({"what": object()})

    async with connected() as client:
        with monkeypatch.context() as patch:
            patch.setattr(connection, "call", strange)
            assert (await client.fail("conversation/list"))["data"]["code"] == "internal"
        assert "object" in caplog.text
        caplog.clear()


# ── side by side ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_running_message_blocks_neither_list_nor_interrupt_nor_cancel_nor_close() -> None:
    async with connected([say("late", gate=asyncio.Event())]) as client:
        id = (await client.call("conversation/open"))["conversation_id"]
        message = await client.ask("conversation/message", conversation_id=id, text="hi")
        await client.event("task_started")
        listed = (await client.call("conversation/list"))["conversations"]
        assert [conversation["status"] for conversation in listed] == ["idle", "running"]
        assert await client.call("conversation/interrupt", conversation_id=id) == {"interrupted": True}
        assert (await client.answer(message))["result"]["status"] == "interrupted"

        start = len(client.sink.sent)
        message = await client.ask("conversation/message", conversation_id=id, text="again")
        task = await client.event("task_started", start)
        assert (await client.call("task/cancel", task_id=task["task_id"]))["cancelled"]
        assert (await client.answer(message))["result"]["status"] == "interrupted"

        start = len(client.sink.sent)
        message = await client.ask("conversation/message", conversation_id=id, text="once more")
        await client.event("task_started", start)
        assert (await client.call("conversation/close", conversation_id=id))["closed"]
        assert (await client.answer(message))["result"]["status"] == "interrupted"


async def test_requests_begin_in_the_order_they_came() -> None:
    async with connected() as client:
        ids = [await client.ask("conversation/message", conversation_id="root", text=f"{n}") for n in range(20)]
        for id in ids:
            await client.answer(id)
        history = (await client.call("conversation/history", conversation_id="root"))["entries"]
        assert [entry["text"] for entry in history if entry["role"] == "user"] == [f"{n}" for n in range(20)]


async def test_all_events_of_a_task_come_before_its_answer() -> None:
    async with connected(["a b c d e f g"]) as client:
        for _ in range(5):
            id = await client.ask("conversation/message", conversation_id="root", text="hi")
            task_id = (await client.answer(id))["result"]["task_id"]
            answered = client.place(lambda m, id=id: m.get("id") == id)
            places = [
                n for n, m in enumerate(client.sink.messages) if is_event(m) and m["params"]["task_id"] == task_id
            ]
            assert places
            assert max(places) < answered
            assert client.sink.messages[places[-1]]["params"]["type"] == "task_complete"


async def test_all_events_of_a_task_come_before_its_answer_to_a_slow_client_too() -> None:
    async with connected() as client:
        await client.event("session_configured")
        client.sink.stick()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.ask("conversation/message", conversation_id="root", text="hi")
        before = len(client.sink.sent)
        await ticks(200)
        assert len(client.sink.sent) == before, "its events wait for room, and it waits for its events"
        client.sink.loosen()
        await client.event("task_complete")
        types = [m["params"]["type"] if is_event(m) else "answer" for m in client.sink.messages[before:]]
        await ticks()
        types = [m["params"]["type"] if is_event(m) else "answer" for m in client.sink.messages[before:]]
        assert types[-2:] == ["task_complete", "answer"]


async def test_an_answer_that_belongs_to_no_task_is_not_held_up_by_a_flood_of_events() -> None:
    async with connected(["word " * 5_000]) as client:
        message = await client.ask("conversation/message", conversation_id="root", text="hi")
        await client.event("agent_message_delta")
        answer = await client.ask("conversation/list")
        await client.answer(answer)
        listed = client.place(lambda m: m.get("id") == answer)
        await client.answer(message)
        rest = [m for m in client.sink.messages[listed:] if is_event(m)]
        assert len(rest) > 100, "most of the flood came after the answer"


# ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────


def listing(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "conversation/list"}


async def test_a_batch_is_answered_by_one_array_of_the_answers_that_are_due() -> None:
    async with connected() as client:
        note = {"jsonrpc": "2.0", "method": "initialized"}
        bad_note = {"jsonrpc": "2.0", "method": "conversation/list", "params": [1]}
        wrong = {"jsonrpc": "2.0", "id": "w", "method": "no/such"}
        message = {
            "jsonrpc": "2.0",
            "id": "m",
            "method": "conversation/message",
            "params": {"conversation_id": "root", "text": "hi"},
        }
        await client.send([listing("a"), note, wrong, bad_note, 1, message])
        answers = await client.sink.until(lambda m: isinstance(m, list))
        by_id = {answer["id"]: answer.get("error", {}).get("code") for answer in answers}
        assert by_id == {"a": None, "w": -32601, None: -32600, "m": None}
        assert client.place(lambda m: is_event(m) and m["params"]["type"] == "task_complete") < client.place(
            lambda m: isinstance(m, list)
        ), "the events of its task come before the batch's answer too"


async def test_a_batch_of_notifications_is_not_answered() -> None:
    async with connected() as client:
        before = [m for m in client.sink.messages if not is_event(m)]
        await client.send([{"jsonrpc": "2.0", "method": "initialized"}] * 3)
        await client.call("conversation/list")
        assert len([m for m in client.sink.messages if not is_event(m)]) == len(before) + 1


@pytest.mark.parametrize("size", [0, connection.MAX_BATCH + 1, 10_000])
async def test_an_empty_or_too_large_batch_is_one_refusal(size: int) -> None:
    """D10."""
    async with connected() as client:
        before = len(client.sink.sent)
        await client.send([listing(n) for n in range(size)])
        await client.call("conversation/list")
        answers = [m for m in client.sink.messages[before:] if not is_event(m)]
        assert len(answers) == 2
        assert (answers[0]["error"]["code"], answers[0]["id"]) == (-32600, None)


async def test_the_largest_batch_is_answered_whole() -> None:
    async with connected() as client:
        await client.send([listing(n) for n in range(connection.MAX_BATCH)])
        answers = await client.sink.until(lambda m: isinstance(m, list))
        assert {answer["id"] for answer in answers} == set(range(connection.MAX_BATCH))
        assert all("result" in answer for answer in answers)


# ── several sessions ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_that_the_client_starts_is_heard_of_from_its_first_event_on() -> None:
    async with connected() as client:
        started = await client.call("session/start")
        other = started["session_id"]
        assert other != client.session_id
        await client.event("session_configured", session_id=other)
        reply = await client.call("conversation/message", session_id=other, conversation_id="root", text="hi")
        answered = client.place(lambda m: m.get("result", {}).get("task_id") == reply["task_id"])
        events = [m["params"] for m in client.sink.messages[:answered] if is_event(m)]
        seqs = [event["seq"] for event in events if event["session_id"] == other and event["seq"] is not None]
        assert seqs == list(range(1, len(seqs) + 1))
        assert events[-1]["type"] == "task_complete"
        assert events[-1]["session_id"] == other
        sessions = (await client.call("session/list"))["sessions"]
        assert [session["session_id"] for session in sessions] == [client.session_id, other]


async def test_after_its_own_session_is_closed_a_client_names_another_or_hears_closed() -> None:
    async with connected([say("late", gate=asyncio.Event())]) as client:
        message = await client.ask("conversation/message", conversation_id="root", text="hi")
        await client.event("task_started")
        assert await client.call("session/close") == {"closed": True, "already_closed": False, "forced": False}
        assert (await client.answer(message))["result"]["status"] == "interrupted"
        for method, params in (
            ("conversation/list", {}),
            ("conversation/message", {"conversation_id": "root", "text": "hi"}),
            ("session/info", {}),
            ("events/subscribe", {}),
            ("session/info", {"session_id": client.session_id}),
        ):
            assert (await client.fail(method, **params))["data"]["code"] == "closed"
        assert (await client.call("session/close"))["already_closed"]
        assert (await client.call("session/list"))["sessions"] == []
        other = (await client.call("session/start"))["session_id"]
        assert (await client.call("session/info", session_id=other))["session_id"] == other


@pytest.mark.parametrize("session_id", [1, True, [], {}, ["x"]])
async def test_a_session_is_named_by_a_text(session_id: Any) -> None:
    async with connected() as client:
        for method in ("conversation/list", "events/subscribe"):
            assert (await client.fail(method, session_id=session_id))["data"]["code"] == "invalid_params"
        assert (await client.fail("conversation/list", session_id="nobody"))["data"]["code"] == "not_found"
        assert "result" in await client.answer(await client.ask("conversation/list", session_id=None))


# ── subscribing ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_subscribing_anew_answers_at_once_and_then_replays() -> None:
    async with connected() as client:
        await client.call("conversation/message", conversation_id="root", text="hi")
        start = len(client.sink.sent)
        answer = await client.call("events/subscribe", after_seq=2)
        last = answer["last_seq"]
        assert answer == {"subscribed": True, "last_seq": last}
        await client.event("task_complete", start)
        replayed = client.sink.messages[start:]
        assert "result" in replayed[0]
        assert [m["params"]["seq"] for m in replayed[1:]] == list(range(3, last + 1))


async def test_subscribing_anew_replaces_the_earlier_subscription() -> None:
    async with connected() as client:
        other = (await client.call("conversation/open"))["conversation_id"]
        await client.call("events/subscribe", conversation_id=other)
        start = len(client.sink.sent)
        await client.call("conversation/message", conversation_id="root", text="unheard")
        await client.call("conversation/message", conversation_id=other, text="heard")
        heard = [m["params"] for m in client.sink.messages[start:] if is_event(m)]
        assert {event["conversation_id"] for event in heard} == {other}
        assert [event["type"] for event in heard].count("task_complete") == 1
        await client.call("events/subscribe", conversation_id="root")
        start = len(client.sink.sent)
        await client.call("conversation/message", conversation_id=other, text="unheard")
        assert not [m for m in client.sink.messages[start:] if is_event(m)]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"after_seq": -1}, "invalid_params"),
        ({"after_seq": 10_000}, "invalid_params"),
        ({"after_seq": "1"}, "invalid_params"),
        ({"conversation_id": "nobody"}, "not_found"),
        ({"since": 1}, "invalid_params"),
        ({"session_id": "nobody"}, "not_found"),
    ],
)
async def test_a_subscription_that_is_refused_changes_nothing(params: dict[str, Any], code: str) -> None:
    async with connected() as client:
        assert (await client.fail("events/subscribe", **params))["data"]["code"] == code
        await client.call("conversation/message", conversation_id="root", text="hi")
        seqs = [event["seq"] for event in client.events() if event["seq"] is not None]
        assert seqs == list(range(1, len(seqs) + 1))
        assert client.events()[-1]["type"] == "task_complete"


async def test_subscribing_while_a_message_runs_keeps_its_answer_behind_its_events() -> None:
    gate = asyncio.Event()
    async with connected([say("late", gate=gate)]) as client:
        message = await client.ask("conversation/message", conversation_id="root", text="hi")
        await client.event("task_started")
        start = len(client.sink.sent)
        await client.call("events/subscribe", after_seq=0)
        gate.set()
        await client.answer(message)
        types = [m["params"]["type"] if is_event(m) else "answer" for m in client.sink.messages[start:]]
        assert types[0] == types[-1] == "answer"
        assert types[-2] == "task_complete"
        assert types.count("task_started") == 1


async def test_a_client_can_listen_to_a_session_that_another_one_started() -> None:
    host = Host(Settings(model=model()))
    one, two = Client(host), Client(host)
    await one.initialize()
    await two.initialize()
    await two.call("events/subscribe", session_id=one.session_id, after_seq=0)
    await one.call("conversation/message", conversation_id="root", text="hi")
    await two.event("task_complete", session_id=one.session_id)
    assert not [event for event in one.events() if event["session_id"] != one.session_id]
    await two.connection.close(1)
    await one.call("conversation/list")
    await one.connection.close(1)


# ── load ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_too_many_requests_in_flight_are_refused_with_advice_and_later_ones_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_runner, "MAX_REQUESTS", 3)
    gate = asyncio.Event()
    async with connected([say("late", gate=gate)]) as client:
        running = [await client.ask("conversation/message", conversation_id="root", text="hi") for _ in range(3)]
        error = await client.fail("conversation/message", conversation_id="root", text="one more")
        assert (error["code"], error["data"]) == (-32001, {"code": "busy", "retry_after_s": 1})
        await client.call("conversation/list")  # whoever has too much under way can still look, and stop it
        gate.set()
        for id in running:
            assert (await client.answer(id))["result"]["status"] == "completed"
        await client.call("conversation/list")


async def test_too_many_bytes_in_flight_are_refused_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_runner, "MAX_REQUEST_BYTES", 1_000)
    gate = asyncio.Event()
    async with connected([say("late", gate=gate)]) as client:
        message = await client.ask("conversation/message", conversation_id="root", text="a" * 600)
        error = await client.fail("conversation/message", conversation_id="root", text="b" * 600)
        assert (error["code"], error["data"]["code"]) == (-32001, "busy")
        await client.call("conversation/list")
        gate.set()
        await client.answer(message)
        await client.call("conversation/message", conversation_id="root", text="b" * 600)


async def test_a_client_that_does_not_read_its_answers_is_not_read_either() -> None:
    async with connected() as client:
        client.sink.stick()
        sent = 0

        async def pour() -> None:
            nonlocal sent
            for _ in range(1_000):
                await client.connection.receive(json.dumps(listing(sent)).encode())
                sent += 1

        pouring = asyncio.create_task(pour())
        await ticks(100)
        assert sent <= 1
        client.sink.loosen()
        async with asyncio.timeout(HANG_S):
            await pouring
        await client.answer(999)


async def test_one_client_that_stops_reading_costs_the_others_nothing() -> None:
    """G2."""
    host = Host(Settings(model=model(["word " * 3_000])))
    stuck, well = Client(host), Client(host)
    await stuck.initialize()
    await well.initialize()
    await stuck.call("events/subscribe", session_id=well.session_id)
    stuck.sink.stick()
    held = len(stuck.sink.sent)
    await well.call("conversation/message", conversation_id="root", text="hi")
    assert len(stuck.sink.sent) == held
    deltas = [event for event in well.events() if event["type"] == "agent_message_delta"]
    assert "".join(event["data"]["text"] for event in deltas) == "word " * 3_000
    stuck.sink.loosen()
    await stuck.event("subscriber_lagged")
    await stuck.event("task_complete", session_id=well.session_id)
    for client in (stuck, well):
        assert await client.connection.close(1)


# ── goodbye ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_a_connection_closes_its_sessions_and_answers_what_is_open() -> None:
    host = Host(Settings(model=model([say("late", gate=asyncio.Event())])))
    client, other = Client(host), Client(host)
    await client.initialize()
    await other.initialize()
    started = (await client.call("session/start"))["session_id"]
    own = await client.ask("conversation/message", conversation_id="root", text="hi")
    theirs = await client.ask("conversation/message", session_id=started, conversation_id="root", text="hi")
    await client.event("task_started", session_id=started)
    assert await client.connection.close(1)
    for id in (own, theirs):
        assert (await client.answer(id))["result"]["status"] == "interrupted"
    assert [session.id for session in host.sessions] == [other.session_id]
    for session_id in (client.session_id, started):
        assert client.events(session_id)[-1]["type"] == "turn_aborted"
    await other.call("conversation/list")
    await other.connection.close(1)


async def test_closing_a_connection_to_a_client_that_does_not_read_returns_in_time() -> None:
    """H4."""
    host = Host(Settings(model=model([say("late", gate=asyncio.Event())])))
    client = Client(host)
    await client.initialize()
    await client.ask("conversation/message", conversation_id="root", text="hi")
    await client.event("task_started")
    client.sink.stick()
    async with asyncio.timeout(HANG_S):
        assert not await client.connection.close(0.05)
    assert host.sessions == []
    answers = [m for m in client.sink.messages if not is_event(m)]
    assert answers[-1]["error"]["data"]["code"] == "cancelled", "every request is answered"


async def test_closing_a_connection_before_initialize_is_nothing_special() -> None:
    client = Client(Host(Settings(model=model())))
    assert await client.connection.close(1)
    assert client.sink.sent == []


async def test_a_session_that_begins_while_the_connection_closes_is_closed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(Settings(model=model()))
    client = Client(host)
    await client.initialize()
    go, real = asyncio.Event(), host.start

    async def slow(*args: Any) -> Any:
        await go.wait()
        return await real(*args)

    monkeypatch.setattr(host, "start", slow)
    answer = await client.ask("session/start")
    closing = asyncio.create_task(client.connection.close(5))
    await ticks()
    go.set()
    async with asyncio.timeout(HANG_S):
        await closing
    assert "result" in await client.answer(answer)
    await host.close()
    assert len(host) == 0


async def test_a_client_that_hears_of_one_conversation_is_nobody_to_the_others(tmp_path: Path) -> None:
    """B9: what it would not see is denied at once; what shows where it listens is asked."""
    touch = {"name": "shell", "arguments": {"command": ["touch", "made"]}}
    replies = [{"tool_calls": [touch]}, "done"]
    async with connected(replies, cwd=str(tmp_path), approval_policy="untrusted") as client:
        other = (await client.call("conversation/open"))["conversation_id"]
        await client.call("events/subscribe", conversation_id=other)
        answer = await client.call("conversation/message", conversation_id="root", text="go")
        assert answer["last_assistant_message"] == "done"
        history = (await client.call("conversation/history", conversation_id="root"))["entries"]
        assert (await client.call("approval/list"))["approvals"] == []
        assert not any(event["type"] == "approval_request" for event in client.events()), history
        start = len(client.sink.sent)
        message = await client.ask("conversation/message", conversation_id=other, text="go")
        request = (await client.event("approval_request", start))["data"]
        assert request["conversation_id"] == other
        await client.call("approval/resolve", approval_id=request["approval_id"], decision="deny")
        assert (await client.answer(message))["result"]["status"] == "completed"
        assert not (tmp_path / "made").exists()
