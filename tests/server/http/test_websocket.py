"""JSON-RPC over WebSockets: the same as on standard input and output, and clients that come, go and come again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed

from tertulia.models.scripted.script import say
from tertulia.protocol.events import BackgroundEvent
from tertulia.server import web_app
from tertulia.server.http.guard import HttpRefusal
from tertulia.session.settings.settings import Settings
from tests.server.client import model
from tests.server.served import DEADLINE_S, Place, served
from tests.tables import each_row

TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}]}

BROKEN: dict[str, tuple[str | bytes, int]] = {
    "100,000 deep": ("[" * 100_000, -32700),
    "a huge integer": ('{"id":' + "9" * 10_000 + "}", -32700),
    "NaN": ('{"jsonrpc":"2.0","id":NaN,"method":"x"}', -32700),
    "duplicate keys": ('{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}', -32700),
    "a byte order mark": ('\ufeff{"jsonrpc":"2.0","id":1,"method":"x"}', -32700),
    "bad UTF-8": (b'{"method":"\xff"}', -32700),
    "nothing": ("", -32700),
    "not a request": ("17", -32600),
    "no version": ('{"id":1,"method":"x"}', -32600),
    "a batch of none": ("[]", -32600),
    "a batch of 100,000": ("[" + ",".join(["{}"] * 100_000) + "]", -32600),
    "an id that is null": ('{"jsonrpc":"2.0","id":null,"method":"x"}', -32600),
    "an id that is an object": ('{"jsonrpc":"2.0","id":{},"method":"x"}', -32600),
    "an id that is a list": ('{"jsonrpc":"2.0","id":[1],"method":"x"}', -32600),
    "an id that is true": ('{"jsonrpc":"2.0","id":true,"method":"x"}', -32600),
    "a lone surrogate as method": ('{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', -32600),
    "a lone surrogate inside": ('{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}', -32602),
    "before initialize": ('{"jsonrpc":"2.0","id":1,"method":"session/info"}', -32002),
}


@each_row(("message", "number"), BROKEN.values(), ids=BROKEN)
async def test_what_is_no_request_is_answered_as_json_rpc_says_and_the_connection_lives(
    message: str | bytes, number: int
) -> None:
    """D9, D10, D16: the same table as over standard input."""
    async with served() as place, place.socket() as client:
        await client.socket.send(message)
        answer = json.loads(await client.socket.recv())
        assert answer["error"]["code"] == number
        assert "result" in await client.call("initialize")


async def test_a_batch_is_answered_as_one() -> None:
    """D10: as many as there may be."""
    async with served() as place, place.socket() as client:
        await client.call("initialize")
        fields = [{"jsonrpc": "2.0", "id": number, "method": "session/info"} for number in range(100)]
        await client.socket.send(json.dumps(fields))
        answers = await client.answer("batch")
        assert sorted(answer["id"] for answer in answers) == list(range(100))


@each_row("id", [0, -1, 1.5, 2**70, "", "ä", "x" * 1_000])
async def test_an_id_comes_back_as_it_was(id: Any) -> None:
    """D10."""
    async with served() as place, place.socket() as client:
        await client.socket.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": "initialize"}))
        answer = await client.answer(id)
        assert answer["id"] == id
        assert "result" in answer


async def test_text_that_is_not_utf_8_ends_the_connection_and_no_other() -> None:
    """D9: RFC 6455 wants it so."""
    async with served() as place, place.socket() as other:
        await other.call("initialize")
        async with place.socket() as client:
            with pytest.raises(ConnectionClosed):
                await client.socket.send(b"\xff\xfe", text=True)
                await client.socket.recv()
        assert "result" in await other.call("session/info")


async def test_nothing_is_compressed_whatever_the_client_offers() -> None:
    """D13: a small message cannot be a huge one."""
    async with served() as place, place.socket(compression="deflate") as client:
        assert client.socket.protocol.extensions == []
        assert "result" in await client.call("initialize")


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_message_that_is_too_long_ends_its_connection_and_no_other(
    monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    """D13: whole, or in pieces that are each short enough."""
    monkeypatch.setattr("tertulia.server.http.server.MAX_BODY_BYTES", 2_000)
    async with served() as place, place.socket() as other, place.socket() as client:
        await other.call("initialize")
        with pytest.raises(ConnectionClosed) as ended:
            await client.socket.send([" " * (4_000 // pieces)] * pieces)
            await client.socket.recv()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1009
        assert "result" in await other.call("session/info")


async def test_a_second_initialize_is_refused_and_an_unknown_version_is_answered_with_ours() -> None:
    """D16."""
    async with served() as place, place.socket() as client:
        hello = await client.call("initialize", protocol_version="1999")
        assert hello["result"]["protocol_version"] == "1"
        assert (await client.call("initialize"))["error"]["code"] == -32600
        assert (await client.call("session/info"))["result"]["session_id"] == hello["result"]["session_id"]


async def test_each_connection_has_a_session_of_its_own_unless_it_names_one() -> None:
    """S000-35; DESIGN, Servers."""
    async with served() as place, place.socket() as first, place.socket() as second, place.socket() as third:
        one = (await first.call("initialize"))["result"]["session_id"]
        two = (await second.call("initialize"))["result"]["session_id"]
        assert one != two
        assert (await third.call("initialize", session_id=one))["result"]["session_id"] == one
        assert len(place.host.sessions) == 2
        async with place.socket() as fourth:
            refused = await fourth.call("initialize", session_id=str(uuid4()))
            assert refused["error"]["data"]["code"] == "not_found"
            assert (await fourth.call("session/info"))["error"]["data"]["code"] == "not_initialized"


async def test_a_running_message_blocks_nothing() -> None:
    """X-69: list and interrupt while it runs."""
    async with served(Settings(model=model([say("late", gate=asyncio.Event())]))) as place, place.socket() as client:
        await client.call("initialize")
        running = await client.send("conversation/message", conversation_id="root", text="go")
        await client.event("task_started")
        listed = await client.call("conversation/list")
        assert listed["result"]["conversations"][0]["status"] == "running"
        assert (await client.call("conversation/interrupt", conversation_id="root"))["result"]["interrupted"]
        assert (await client.answer(running))["result"]["status"] == "interrupted"


async def test_a_dropped_socket_stops_nothing_and_whoever_comes_back_misses_nothing() -> None:
    """X-70: reconnect with the number of the last event."""
    gate = asyncio.Event()
    async with served(Settings(model=model([say("late", gate=gate)]))) as place:
        async with place.socket() as client:
            hello = (await client.call("initialize"))["result"]
            await client.send("conversation/message", conversation_id="root", text="go")
            begun = await client.event("task_started")
            client.socket.transport.abort()
        async with place.socket() as client:
            again = (await client.call("initialize", session_id=hello["session_id"]))["result"]
            assert again["root_conversation_id"] == hello["root_conversation_id"]
            (task,) = (await client.call("task/list"))["result"]["tasks"]
            assert task["status"] == "running"
            await client.call("events/subscribe", after_seq=begun["seq"])
            gate.set()
            done = await client.event("task_complete")
            numbers = [event["seq"] for event in client.events if event["seq"] is not None]
            assert numbers == list(range(begun["seq"] + 1, done["seq"] + 1))
            history = (await client.call("conversation/history", conversation_id="root"))["result"]["entries"]
            assert [entry["text"] for entry in history] == ["go", "late"]


async def test_a_session_that_was_closed_is_brought_back_by_its_name() -> None:
    """A server that was started again: what is stored is not lost to its clients."""
    async with served() as place, place.socket() as client:
        hello = (await client.call("initialize"))["result"]
        await client.call("conversation/message", conversation_id="root", text="go")
        await client.call("session/close")
        assert not place.host.sessions
        async with place.socket() as later:
            again = (await later.call("initialize", session_id=hello["session_id"]))["result"]
            assert again["session_id"] == hello["session_id"]
            history = (await later.call("conversation/history", conversation_id="root"))["result"]["entries"]
            assert [entry["text"] for entry in history] == ["go", "hello"]


async def test_of_several_clients_the_first_answer_to_an_approval_counts(tmp_path: Path) -> None:
    """B6, X-70."""
    made = Settings(model=model([TOUCH, "done"]), cwd=str(tmp_path), approval_policy="untrusted")
    async with served(made) as place, place.socket() as first, place.socket() as second:
        session = (await first.call("initialize", attend=True))["result"]["session_id"]
        await second.call("initialize", session_id=session, attend=True)
        running = await first.send("conversation/message", conversation_id="root", text="go")
        question = (await second.event("approval_request"))["data"]["approval_id"]
        assert (await first.event("approval_request"))["data"]["approval_id"] == question
        assert not (tmp_path / "made").exists()
        denied = await second.call("approval/resolve", approval_id=question, decision="deny")
        allowed = await first.call("approval/resolve", approval_id=question, decision="allow")
        assert (denied["result"]["resolved"], allowed["result"]["resolved"]) == (True, False)
        unknown = await first.call("approval/resolve", approval_id="nobody-1", decision="allow")
        assert unknown["error"]["data"]["code"] == "not_found"
        assert (await first.answer(running))["result"]["status"] == "completed"
        assert not (tmp_path / "made").exists()


async def test_an_approver_who_goes_away_has_not_said_yes(tmp_path: Path) -> None:
    """B9: no answer in time is a no."""
    made = Settings(
        model=model([TOUCH, "done"]), cwd=str(tmp_path), approval_policy="untrusted", approval_timeout_s=0.2
    )
    async with served(made) as place:
        async with place.socket() as client:
            session_id = (await client.call("initialize", attend=True))["result"]["session_id"]
            await client.send("conversation/message", conversation_id="root", text="go")
            await client.event("approval_request")
            client.socket.transport.abort()
        session = place.host[session_id]
        async with asyncio.timeout(DEADLINE_S), session.events(after=0) as news:
            async for event in news:
                if event.type == "task_complete":
                    break
        assert not (tmp_path / "made").exists()


async def test_a_client_that_does_not_read_costs_a_bounded_queue_and_nobody_else_anything() -> None:
    """G2: it is told what it missed, and others get everything."""
    async with served() as place, place.socket() as stuck, place.socket() as other:
        session_id = (await stuck.call("initialize"))["result"]["session_id"]
        await other.call("initialize", session_id=session_id)
        bus = place.host[session_id].parts.bus
        number = 12_000
        for index in range(number):
            bus.publish(BackgroundEvent("x" * 1_000))
            if index % 200 == 199:
                await bus.flush()
                await other.until(lambda: other.events and other.events[-1]["seq"] == bus.last_seq)
        assert [event["seq"] for event in other.events[-number:]] == list(
            range(bus.last_seq - number + 1, bus.last_seq + 1)
        )
        await stuck.until(lambda: stuck.events and stuck.events[-1]["seq"] == bus.last_seq)
        numbered = [event["seq"] for event in stuck.events if event["seq"] is not None]
        assert numbered == sorted(set(numbered))
        assert len(numbered) == bus.last_seq or any(event["type"] == "subscriber_lagged" for event in stuck.events)


async def test_too_many_requests_at_once_are_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-69: bounded, and −32001 says when to come again."""
    monkeypatch.setattr("tertulia.server.jsonrpc.request_runner.MAX_REQUESTS", 2)
    async with served(Settings(model=model([say("late", gate=asyncio.Event())]))) as place, place.socket() as client:
        await client.call("initialize")
        for _ in range(2):
            await client.send("conversation/message", conversation_id="root", text="go")
        refused = await client.call("conversation/message", conversation_id="root", text="go")
        assert refused["error"]["code"] == -32001
        assert refused["error"]["data"]["retry_after_s"] == 1
        assert "result" in await client.call("conversation/interrupt", conversation_id="root")


async def test_a_client_that_never_says_initialize_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11."""
    monkeypatch.setattr(web_app, "INITIALIZE_S", 0.05)
    async with served() as place, place.socket() as client:
        with pytest.raises(ConnectionClosed) as ended:
            async with asyncio.timeout(DEADLINE_S):
                await client.socket.recv()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008


async def test_one_that_is_gone_when_it_is_sent_away_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """D12: in that very moment; it would be a traceback in the log."""

    class Gone:
        async def receive(self) -> None:
            await asyncio.Event().wait()

        async def close(self, *_: object) -> None:
            raise WebSocketDisconnect(1006)

    monkeypatch.setattr(web_app, "INITIALIZE_S", 0.01)
    assert await web_app._receive_before_initialize(Gone()) == {"type": "websocket.disconnect"}  # type: ignore[arg-type]


async def test_there_is_room_for_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10: bounded."""
    monkeypatch.setattr(web_app, "MAX_SOCKETS", 1)
    async with served() as place, place.socket() as client:
        await client.call("initialize")
        answer = await place.raw(place.upgrade())
        assert answer.startswith(b"HTTP/1.1 503")
        assert "result" in await client.call("session/info")
    assert HttpRefusal(503, "busy", "x").status == 503


async def test_a_client_that_goes_away_after_any_byte_leaves_nothing_behind() -> None:
    """D12: every place in the upgrade and in the first frame."""
    async with served() as place, place.socket() as other:
        await other.call("initialize")
        frame = b"\x81\x80\x00\x00\x00\x00"
        request = place.upgrade() + frame
        for cut in range(0, len(request), 3):
            _, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(request[:cut])
            writer.close()
            await writer.wait_closed()
        assert "result" in await other.call("session/info")
        async with asyncio.timeout(DEADLINE_S):
            while place.web.clients > 1:
                await other.call("session/info")
        assert len(place.host.sessions) == 1


async def _survives(place: Place, junk: list[bytes]) -> None:
    async with place.socket() as client:
        for message in junk:
            await client.socket.send(message)
        hello = {"jsonrpc": "2.0", "id": "hello", "method": "initialize"}
        await client.socket.send(json.dumps(hello))
        while True:
            answer = json.loads(await client.socket.recv())
            if isinstance(answer, dict) and answer["id"] == "hello":
                assert "result" in answer
                return


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["id", "method", "params", "jsonrpc"]) | st.text(), inner)
    ),
)
JUNK = st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(st.lists(JUNK, min_size=10, max_size=40))
def test_whatever_is_sent_the_connection_lives(junk: list[bytes]) -> None:
    """D9, target 6: bytes, and JSON of any shape."""

    async def run() -> None:
        async with served() as place:
            await _survives(place, junk)

    asyncio.run(run())


def test_the_token_is_not_chosen_as_subprotocol_where_there_is_another() -> None:
    """D5."""
    assert web_app._choose_subprotocol([]) is None
    assert web_app._choose_subprotocol(["bearer.x", "tertulia", "other"]) == "tertulia"
    assert web_app._choose_subprotocol(["bearer.x", "other"]) == "other"
    assert web_app._choose_subprotocol(["bearer.x"]) == "bearer.x"
