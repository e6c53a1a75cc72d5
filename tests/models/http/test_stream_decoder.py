"""What readers share: typed parsing that survives bad Unicode, bounded drafts, counts that add up."""

from __future__ import annotations

import contextlib
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.models.http.provider_error import ProviderAddress, ProviderAttemptError
from tertulia.models.http.stream_decoder import (
    EMPTY_RAW,
    AnswerBudget,
    AnswerLimits,
    ArgumentDraft,
    Draft,
    count_at,
    make_usage,
    object_fields,
    parse,
    parse_known,
    read_loosely,
)
from tertulia.protocol.items import Usage
from tests.tables import each_row

PLACE = ProviderAddress("mock", "model", "mock.example", None)


class Said(msgspec.Struct):
    type: str = ""
    text: str = ""
    rest: msgspec.Raw = EMPTY_RAW


decoder = msgspec.json.Decoder(Said)


@each_row(
    ("data", "text"),
    [
        (b'{"text": "plain"}', "plain"),
        (rb'{"text": "\ud83d\ude00"}', "😀"),
        (rb'{"text": "a\ud83d"}', "a?"),
        (rb'{"text": "\ude00b"}', "?b"),
        (b'{"text": "a\xffb"}', "a\ufffdb"),
        (b'{"text": "\xed\xa0\x80"}', "\ufffd\ufffd\ufffd"),
        (rb'{"text": "\\ud83d"}', "\\ud83d"),
    ],
)
def test_half_characters_cost_one_character_and_not_the_answer(data: bytes, text: str) -> None:
    """HARDENING D9: lone surrogates and bad UTF-8 of a provider."""
    assert parse(decoder, data, PLACE).text == text
    text.encode()


@each_row(
    "data",
    [
        b"",
        b"[DONE]",
        b"{",
        b"[]",
        b'{"text": 1}',
        b'{"text": NaN}',
        b'{"text": "a\nb"}',
        b'{"rest": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 100_000,
        b"\xef\xbb\xbf{}x",
        b'{"text": ' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_not_the_form_is_an_error_and_nothing_else(data: bytes) -> None:
    """HARDENING D9."""
    with pytest.raises(ProviderAttemptError, match="mock sent an event") as caught:
        parse(decoder, data, PLACE)
    assert caught.value.retry is None


def test_duplicate_keys_are_read_as_the_last() -> None:
    assert parse(decoder, b'{"text": "a", "text": "b"}', PLACE).text == "b"


def test_an_event_of_an_unknown_type_may_have_any_form() -> None:
    known = {"text.delta"}
    whole = parse_known(decoder, b'{"type": "text.delta", "text": "a"}', PLACE, known)
    assert whole is not None
    assert whole.text == "a"
    assert parse_known(decoder, b'{"type": "new.thing", "text": {"no": "text"}}', PLACE, known) is None
    with pytest.raises(ProviderAttemptError):
        parse_known(decoder, b'{"type": "text.delta", "text": {"no": "text"}}', PLACE, known)
    with pytest.raises(ProviderAttemptError):
        parse_known(decoder, b'{"type": 1}', PLACE, known)
    with pytest.raises(ProviderAttemptError):
        parse_known(decoder, b'{"type": "text.delta", "te', PLACE, known)


@given(st.binary(max_size=100))
def test_any_bytes_are_parsed_or_an_error(data: bytes) -> None:
    for read in (lambda: parse(decoder, data, PLACE), lambda: parse_known(decoder, data, PLACE, {"a"})):
        with contextlib.suppress(ProviderAttemptError):
            read()


def test_a_draft_grows_and_keeps_its_id() -> None:
    draft = Draft(AnswerBudget(PLACE))
    first = draft.item_id
    draft.add("a ")
    draft.add("b")
    assert (draft.text, draft.item_id) == ("a b", first)


def test_pieces_of_nothing_take_no_memory() -> None:
    draft = Draft(AnswerBudget(PLACE))
    tracemalloc.start()
    for _ in range(100_000):
        draft.add("")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 10_000


def test_there_is_no_room_for_an_answer_without_end() -> None:
    draft = Draft(AnswerBudget(PLACE, AnswerLimits(answer=10_000)))
    draft.add("x" * 9_000)
    with pytest.raises(ProviderAttemptError, match="longer than 10,000"):
        draft.add("x")
    room = AnswerBudget(PLACE, AnswerLimits(answer=10_000))
    with pytest.raises(ProviderAttemptError, match="longer than 10,000"):
        for _ in range(11):
            room.item()


@each_row(
    ("counts", "number"),
    [
        ({"a": {"b": 7}}, 7),
        ({"a": {"b": 7.0}}, 7),
        ({"a": {"b": -7}}, 0),
        ({"a": {"b": None}}, 0),
        ({"a": {"b": "7"}}, 0),
        ({"a": {"b": float("inf")}}, 0),
        ({"a": {"b": float("nan")}}, 0),
        ({"a": {"b": 10**30}}, 1 << 53),
        ({"a": {"b": 10**400}}, 1 << 53),
        ({"a": {"b": -(10**400)}}, 0),
        ({"a": 7}, 0),
        ({}, 0),
        (None, 0),
        ([], 0),
    ],
)
def test_counts_are_read_as_well_as_they_can_be(counts: object, number: int) -> None:
    assert count_at(counts, "a", "b") == number


def test_a_total_is_at_least_its_parts() -> None:
    assert make_usage(10, 4, 5, 1) == Usage(10, 4, 5, 1, 15)
    assert make_usage(10, 4, 5, 1, 3) == Usage(10, 4, 5, 1, 15)
    assert make_usage(10, 4, 5, 1, 20) == Usage(10, 4, 5, 1, 20)


def test_loose_reading_never_fails() -> None:
    assert read_loosely(msgspec.Raw(b'{"a": 1}')) == {"a": 1}
    for broken in (b"", b"{", b"[" * 100_000, b"\xff", b'"\\ud800"'):
        assert read_loosely(msgspec.Raw(broken)) is None
    assert object_fields({"a": 1}) == {"a": 1}
    assert object_fields([1]) == {}


def test_arguments_are_given_up_as_soon_as_they_are_too_long() -> None:
    """M1."""
    room = AnswerBudget(PLACE, AnswerLimits(argument=10))
    draft = ArgumentDraft(room)
    draft.add("x" * 10)
    with pytest.raises(
        ProviderAttemptError, match=r"more than 10 characters of arguments \(max_argument_characters\)"
    ) as refused:
        draft.add("x")
    assert refused.value.retry is None, "the same request would come to the same"
    assert ArgumentDraft(room).text == "", "each call has its own"


def test_what_is_announced_counts_and_takes_no_room() -> None:
    """M1: it comes once more, as a whole."""
    room = AnswerBudget(PLACE, AnswerLimits(answer=10))
    assert (room.announce("x" * 10), room.characters) == (10, 10)
    room.take("x" * 10)
    with pytest.raises(ProviderAttemptError, match="longer than 10"):
        room.announce("x")


def test_only_characters_are_progress() -> None:
    """M1: items and empty pieces are not."""
    room = AnswerBudget(PLACE)
    draft = Draft(room)
    draft.add("")
    assert room.characters == 0
    draft.add("ab")
    assert room.characters == 2
