"""All wires, any stream: cut anywhere it says the same, and no change to it makes a wire hang, raise or lie."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.models.http import sse
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerItem, AnswerPiece, RetryNotice, TextDelta
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import AssistantMessage
from tests.models.apis import APIS, Api, every_api, heard, said
from tests.models.mock_provider import Told, event
from tests.models.wire_contract import check_answer
from tests.thorough import examples

ANSWERS = (
    Told(thought="Let me see.", text="Zwölf Boxkämpfer 😀", calls=(("c1", "shell", '{"a":"ü"}'), ("c2", "plan", "{}"))),
    Told(text="Yes."),
    Told(),
)
RECORDED = [(api, b"".join(api.events(answer))) for api in APIS for answer in ANSWERS]
recorded = pytest.mark.parametrize(("api", "stream"), RECORDED, ids=lambda part: getattr(part, "name", ""))


def without_ids(pieces: list[AnswerPiece]) -> Any:
    """Ids are made anew for each answer; they are numbered in the order they come in."""
    numbers: dict[str, int] = {}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: numbers.setdefault(held, len(numbers)) if key in ("id", "item_id") else renamed(held)
                for key, held in value.items()
            }
        return [renamed(held) for held in value] if isinstance(value, list | tuple) else value

    return renamed([msgspec.to_builtins(piece) for piece in pieces])


@pytest.mark.slow
@recorded
async def test_every_split_of_a_stream_gives_the_same_answer(api: Api, stream: bytes) -> None:
    whole = await heard(api, [stream])
    check_answer(whole)
    assert isinstance(whole[-1], AnswerEnd)
    expected = without_ids(whole)
    for place in range(len(stream)):
        assert without_ids(await heard(api, [stream[:place], stream[place:]])) == expected
    assert without_ids(await heard(api, [bytes([byte]) for byte in stream])) == expected


@recorded
async def test_a_stream_that_is_cut_anywhere_is_asked_for_again(api: Api, stream: bytes) -> None:
    """Nothing is acted on before the end, so nothing of the first attempt is left in the second."""
    expected = without_ids(await heard(api, [stream]))
    for place in range(0, len(stream), 7):
        pieces = await heard(api, [stream[:place]], [stream])
        check_answer(pieces)
        retries = [number for number, piece in enumerate(pieces) if isinstance(piece, RetryNotice)]
        # Not asked again: what was cut off was no more than the count of tokens.
        again = without_ids(pieces[retries[-1] + 1 :]) if retries else [*without_ids(pieces)[:-1], expected[-1]]
        assert again == expected


changes = st.tuples(st.floats(0, 1), st.sampled_from(["drop", "double", "swap", "put"]), st.binary(max_size=8))


@given(st.sampled_from(RECORDED), st.lists(changes, min_size=1, max_size=6))
@settings(max_examples=examples(1_500))
def test_changed_bytes_never_break_a_wire(case: tuple[Api, bytes], changed: list[tuple[float, str, bytes]]) -> None:
    api, stream = case
    for where, how, what in changed:
        place = int(where * len(stream))
        match how:
            case "drop":
                stream = stream[:place] + stream[place + len(what) + 1 :]
            case "double":
                stream = stream[:place] + stream[max(0, place - 200) :]
            case "swap":
                stream = stream[place:] + stream[:place]
            case _:
                stream = stream[:place] + what + stream[place:]
    check_answer(asyncio.run(heard(api, [stream])))


odd = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just([])
    | st.just({})
    | st.just([{}])
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(found for key, held in inside for found in places(held, (*at, key)))]


def changed_at(value: Any, at: tuple[Any, ...], change: Any) -> Any:
    if not at:
        return change
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed_at(value[at[0]], at[1:], change)
    return copy


@given(st.sampled_from(APIS), st.data())
@settings(max_examples=examples(1_500))
def test_changed_values_never_break_a_wire(api: Api, data: st.DataObject) -> None:
    """Valid JSON in a valid stream, with other values, other types, other order, something twice or missing."""
    events = [_value(made) for made in api.events(ANSWERS[0])]
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(events) - 1))
        match data.draw(st.sampled_from(["change", "drop", "double", "move"])):
            case "change":
                at = data.draw(st.sampled_from(places(events[number])))
                events[number] = changed_at(events[number], at, data.draw(odd))
            case "double":
                events.insert(number, events[number])
            case "move":
                events.append(events.pop(number))
            case _:
                del events[number]
    check_answer(asyncio.run(heard(api, [event(value) for value in events])))


def _value(made: bytes) -> Any:
    data = made.partition(b"data: ")[2]
    return "[DONE]" if b"[DONE]" in data else json.loads(data)


@every_api
@pytest.mark.parametrize("escape", [r"\ud83d", r"\ude00", r"\ud83d\ud83d"])
async def test_half_a_character_does_not_break_an_answer(api: Api, escape: str) -> None:
    """HARDENING D9."""
    stream = b"".join(api.events(Told(thought="A HALF", text="B HALF", calls=(("c", "shell", '{"a":"HALF"}'),))))
    pieces = await heard(api, [stream.replace(b"HALF", escape.encode())])
    check_answer(pieces)
    assert isinstance(pieces[-1], AnswerEnd)
    assert [type(item).__name__ for item in said(pieces)] == ["Reasoning", "AssistantMessage", "ToolCall"]
    msgspec.json.encode(pieces)


@every_api
async def test_a_delta_without_end_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 MB in one event; the bound is lowered so that the test is quick, and tested as it is in test_connection."""
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 10_000)
    with pytest.raises(sse.EventTooLargeError):
        await heard(api, [b"data: " + b"x" * 1_000 for _ in range(11)])


@every_api
async def test_an_answer_without_end_is_given_up(api: Api) -> None:
    """Many deltas, each of a size that is allowed."""
    piece = "x" * (MAX_TEXT_BYTES // 4)
    events = api.events(Told(text=" ".join([piece] * 5)))
    pieces = await heard(api, events)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "longer than" in pieces[-1].message
    assert sum(len(piece.text) for piece in pieces if isinstance(piece, TextDelta)) <= MAX_TEXT_BYTES


@pytest.mark.slow
@every_api
async def test_calls_without_end_are_given_up(api: Api) -> None:
    events = api.events(Told(calls=tuple((f"c{n}", "x", "{}") for n in range(17_000))))
    pieces = await heard(api, events)
    assert isinstance(pieces[-1], AnswerFailure)
    assert sum(isinstance(piece, AnswerItem) for piece in pieces) < 17_000


@every_api
async def test_strange_text_arrives_as_it_was_sent(api: Api) -> None:
    """HARDENING E11: line breaks of Unicode end no event."""
    text = "a\u2028b\u2029c\u0085d\x0be\x00f\ufefff\r\ng"
    (item,) = said(await heard(api, api.events(Told(text=text))))
    assert isinstance(item, AssistantMessage)
    assert item.text == text
    raw = b"".join(api.events(Told(text="HERE"))).replace(b"HERE", "a\u2028b\u0085c".encode())
    (item,) = said(await heard(api, [raw]))
    assert isinstance(item, AssistantMessage)
    assert item.text == "a\u2028b\u0085c"
