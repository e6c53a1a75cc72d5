"""What makes a request, and how answers are written."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from tertulia import errors
from tertulia.errors import TertuliaError
from tertulia.protocol.events import AgentMessage, Event
from tertulia.protocol.ids import ItemId, SessionId
from tertulia.server.jsonrpc.messages import (
    MAX_ID,
    RequestRefusal,
    RpcRequest,
    encode_batch,
    encode_error,
    encode_event,
    encode_result,
    read_request,
)
from tests.tables import each_row


def request(**changes: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": 1}, **changes}


def refused(entry: Any) -> tuple[int, str, Any]:
    """Number, code and id of the refusal."""
    with pytest.raises(RequestRefusal) as caught:
        read_request(entry)
    assert caught.value.line is not None
    line = json.loads(caught.value.line)
    assert line["jsonrpc"] == "2.0"
    return line["error"]["code"], line["error"]["data"]["code"], line["id"]


def test_a_request_has_method_params_and_id() -> None:
    assert read_request(request()) == RpcRequest("m", {"a": 1}, 1)
    assert read_request({"jsonrpc": "2.0", "method": "m", "id": "x"}) == RpcRequest("m", {}, "x")
    assert read_request(request(params=None)) == RpcRequest("m", {}, 1)


def test_a_request_without_id_is_a_notification() -> None:
    assert read_request({"jsonrpc": "2.0", "method": "m"}).id is None


@each_row("id", ["", "a", "ünï€", "x" * MAX_ID, 0, -1, 2**53 + 1, 2**64, 10**30, 1.5, -0.0, 1e300])
def test_texts_and_numbers_are_legal_ids_and_come_back_as_they_were(id: Any) -> None:
    """D10."""
    assert read_request(request(id=id)).id == id
    for line in (encode_result(id, {}), encode_error(id, errors.NotFoundError("no"))):
        echoed = json.loads(line)["id"]
        assert echoed == id
        assert type(echoed) is type(id)


@each_row("id", [None, True, False, {}, {"a": 1}, [], [1], "\ud800", "x" * (MAX_ID + 1)])
def test_any_other_id_is_refused_under_none(id: Any) -> None:
    """D10, L1: an id of 23 MB took five times as much, because it is repeated and kept."""
    assert refused(request(id=id)) == (-32600, "invalid_request", None)


@each_row("entry", [None, True, 1, 1.5, "text", [], [[]]])
def test_only_an_object_is_a_request(entry: Any) -> None:
    assert refused(entry) == (-32600, "invalid_request", None)


@each_row(
    "changes",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"jsonrpc": None},
        {"method": None},
        {"method": 1},
        {"method": ["m"]},
        {"method": "\udc00"},
    ],
)
def test_a_wrong_envelope_is_refused_under_the_id_as_far_as_there_is_one(changes: dict[str, Any]) -> None:
    entry = request(**changes)
    assert refused(entry) == (-32600, "invalid_request", 1)
    del entry["id"]
    assert refused(entry) == (-32600, "invalid_request", None)


@pytest.mark.parametrize("name", ["jsonrpc", "method"])
def test_a_missing_part_is_refused_under_the_id(name: str) -> None:
    entry = request()
    del entry[name]
    assert refused(entry) == (-32600, "invalid_request", 1)


@each_row("params", [[], [1], "text", 1, 0, True, False, {"a": "\ud800"}, {"\ud800": 1}, {"a": [{"b": 2**64}]}])
def test_params_that_cannot_be_used_are_refused_under_the_id(params: Any) -> None:
    assert refused(request(params=params)) == (-32602, "invalid_params", 1)


def test_a_notification_with_such_params_is_refused_in_silence() -> None:
    entry = request(params=[1])
    del entry["id"]
    with pytest.raises(RequestRefusal) as caught:
        read_request(entry)
    assert caught.value.line is None


NUMBERS = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "method_not_found": -32601,
    "invalid_params": -32602,
    "busy": -32001,
    "not_initialized": -32002,
}


@each_row(
    "kind",
    [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TertuliaError)],
    ids=lambda kind: kind.__name__,
)
def test_each_error_has_its_number_its_code_and_its_detail(kind: type[TertuliaError]) -> None:
    assert json.loads(encode_error(7, kind("a sentence", retry_after_s=1, code="never this"))) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {
            "code": NUMBERS.get(kind.code, -32000),
            "message": "a sentence",
            "data": {"code": kind.code, "retry_after_s": 1},
        },
    }


def test_answers_batches_and_events_are_written_as_the_protocol_says() -> None:
    one = encode_result("a", {"text": "ünï\n"})
    assert json.loads(one) == {"jsonrpc": "2.0", "id": "a", "result": {"text": "ünï\n"}}
    assert b"\n" not in one
    assert json.loads(encode_batch([one, one])) == [json.loads(one)] * 2


@pytest.mark.parametrize("length", [3, 300_000])
def test_an_event_is_written_the_same_way_however_long_it_is(length: int) -> None:
    """L1: a long one is not made twice in order to be put into its envelope."""
    data = AgentMessage("é" * length, ItemId("i"))
    event = Event(0, 1, "", data.type, SessionId("s"), "s", None, None, None, None, data)
    assert encode_event(event) == b'{"jsonrpc":"2.0","method":"event","params":%b}' % event.json()
    tracemalloc.start(1)
    try:
        size = len(encode_event(event))
        assert length == 3 or tracemalloc.get_traced_memory()[1] < 1.7 * size
    finally:
        tracemalloc.stop()
