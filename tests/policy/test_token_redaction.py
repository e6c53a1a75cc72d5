"""Session tokens are found in texts wherever they stand, and cost little where there are none."""

from __future__ import annotations

import gc
import hashlib
import time
from collections import deque
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.redaction import Redactor
from tertulia.policy.token_redaction import VISIBLE_CHARACTERS, TokenRedactor, TokenStreamRedactor, at_once
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, AgentReasoningDelta
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.tool_events import ExecCommandOutputDelta
from tests.tables import each_row


def token(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def holding(*numbers: int) -> TokenRedactor:
    tokens = TokenRedactor()
    for number in numbers:
        tokens.add(token(number))
    return tokens


@each_row("count", [1, 8, 9, 500])
def test_every_token_is_taken_out_however_many_there_are(count: int) -> None:
    """S001-45, X-44."""
    tokens = holding(*range(count))
    for number in range(0, count, max(1, count // 20)):
        secret = token(number)
        assert tokens.text(f"a {secret} b") == f"a {secret[:VISIBLE_CHARACTERS]}[redacted:token] b"
        assert tokens.may_be_in(f'{{"a": "a {secret} é"}}'.encode())


@each_row("count", [0, 1, 8, 9])
def test_what_has_no_token_in_it_stays_the_same_object(count: int) -> None:
    tokens = holding(*range(count))
    for text in ("", "nothing here", token(999), token(999) * 3, "é" * 100):
        assert tokens.text(text) is text
        assert not tokens.may_be_in(text.encode())
        data = {"a": [text, {text: 1}, (text,)], "b": None}
        assert at_once(tokens.data_steps(data)) is data


@given(
    st.text("0123456789abcdefg", max_size=80),
    st.text("0123456789abcdefg", max_size=80),
    st.integers(0, 64),
    st.booleans(),
)
def test_no_text_around_it_and_no_cut_hides_a_token(before: str, after: str, cut: int, end: bool) -> None:
    """S001-45."""
    secret = token(1)
    piece = secret[-cut:] if end and cut else secret[:cut]
    cleaned = holding(1, 2).text(before + piece + after)
    assert not any(
        secret[at : at + VISIBLE_CHARACTERS + 1] in cleaned for at in (0, len(secret) - VISIBLE_CHARACTERS - 1)
    )
    if cut <= VISIBLE_CHARACTERS and not any(
        key in before + piece + after for key in (secret[:9], secret[-9:], token(2)[:9], token(2)[-9:])
    ):
        assert cleaned == before + piece + after


@each_row("length", [12, 13, 20, 40])
def test_a_piece_of_its_middle_is_taken_out_too(length: int) -> None:
    """S001-45: a text may come in pieces."""
    secret, tokens = token(1), holding(1, 2)
    for at in range(1, 64 - length):
        assert tokens.text(f"x{secret[at : at + length]}x") == "x[redacted:token]x"
    assert tokens.text(secret[20:31]) == secret[20:31], "less than twelve is found by chance"


def test_two_tokens_in_one_run_of_digits_are_both_found() -> None:
    one, two = token(1), token(2)
    cleaned = holding(1, 2).text(f"00{one}{two}ff{one[:30]}")
    assert cleaned == f"00{one[:8]}[redacted:token]{two[:8]}[redacted:token]ff{one[:8]}[redacted:token]"
    assert holding(1).text(f"00{one[-20:]}ff") == "00[redacted:token]ff"


def test_the_last_that_were_valid_are_remembered_and_older_ones_forgotten() -> None:
    tokens = TokenRedactor()
    for number in range(100):
        tokens.add(token(number))
        tokens.retire(token(number))
    assert token(0) in tokens.text(token(0))
    assert token(35) in tokens.text(token(35))
    assert all(token(number) not in tokens.text(token(number)) for number in range(36, 100))


def test_of_a_forgotten_token_no_piece_is_held_in_memory() -> None:
    """S001-45"""
    tokens = TokenRedactor()
    for number in range(100):
        tokens.add(token(number))
        tokens.retire(token(number))
    reachable, texts = list[object]([tokens]), list[str]()
    for entry in reachable:
        texts += [entry] if isinstance(entry, str) else []
        if isinstance(entry, (TokenRedactor, dict, deque)):
            reachable += gc.get_referents(entry)
    pieces = [token(0)[at : at + 12] for at in range(52)]
    assert any(token(99) in text for text in texts), "what is remembered was reached"
    assert [text for text in texts if any(piece in text for piece in pieces)] == []


@each_row("text", ["0123456789abcdef" * 20_000, token(1)[:9] * 20_000, token(1)[-9:] * 20_000, "a b " * 100_000])
def test_a_long_text_takes_linear_time(text: str) -> None:
    """A dump in hexadecimal, and one that was made to be slow."""
    tokens = holding(*range(40))
    began = time.thread_time()
    tokens.text(text)
    assert time.thread_time() - began < 10


HEXADECIMAL = "".join(map(token, range(1_000, 17_000)))
"""A megabyte of digits that belong to no token."""


@each_row("text", [HEXADECIMAL, "0123456789abcdef" * 65_536, " ".join(cut(HEXADECIMAL, 10)), token(1)[:5] * 200_000])
def test_a_dump_in_hexadecimal_does_not_hold_the_loop(text: str) -> None:
    """L1: each event with a megabyte of it held it for two seconds in a session with agents."""
    tokens = holding(*range(20))
    began = time.thread_time()
    tokens.text(text)
    assert time.thread_time() - began < 0.3


@each_row("place", [0, 1, 2, 3, 4, 500, 8_100, 8_150, 8_192, 8_193, 8_300, 100_000, 500_000])
def test_a_token_is_found_at_every_place_of_a_long_text(place: int) -> None:
    """S001-45: whole, and its beginning, its end and a part of its middle."""
    secret, tokens = token(1), holding(*range(5))
    for part, shown in ((secret, secret[:8]), (secret[:9], secret[:8]), (secret[-9:], ""), (secret[20:32], "")):
        before, after = HEXADECIMAL[:place] + "z", "z" + HEXADECIMAL[place:]
        assert tokens.text(f"{before}{part}{after}") == f"{before}{shown}[redacted:token]{after}"


def test_a_text_that_is_made_of_parts_of_tokens_loses_all_long_numbers_from_there_on() -> None:
    """Fails closed, in bounded time."""
    secret, tokens = token(1), holding(1)
    for parts in (secret * 20_000, secret[:9] * 20_000, f"{secret} " * 20_000, secret[:5] * 200_000):
        began = time.thread_time()
        cleaned = tokens.text(f"{parts}{secret}z{token(7)}")
        assert time.thread_time() - began < 1
        assert secret not in cleaned
        assert secret[-9:] not in cleaned
        assert cleaned.endswith("z[redacted:token]")
    assert tokens.text(f"{secret} {token(7)}" + " " * 5_000) == f"{secret[:8]}[redacted:token] {token(7)}" + " " * 5_000


@each_row("part", [(0, 9), (20, 33), (20, 32), (-9, None), (0, 64), (8, 64)])
@each_row("end", [" ", "\n", "", "-"])
def test_no_part_is_shown_where_a_text_begins_to_lose_all_long_numbers(part: tuple[int, int | None], end: str) -> None:
    """S001-45: the number that stands at that place was cut in two, and neither half was known."""
    secret, tokens = token(1), holding(*range(3))
    piece = f"{secret[slice(*part)]}{end}"
    for before in range(13):
        # All of them begin to between 8 and 17 KB.
        cleaned = tokens.text("x" * before + piece * (20_000 // len(piece)))
        assert not [at for at in range(53) if secret[at : at + 12] in cleaned]
        assert secret[:9] not in cleaned
        assert secret[-9:] not in cleaned


def test_data_that_is_made_of_parts_of_tokens_keeps_its_numbers_ids_and_escapes() -> None:
    """S001-45: its JSON could not be read any more, so a task failed whose executor printed parts of its own token."""
    secret, tokens, id, control = token(1), holding(1), token(7)[:16], "\b0123456789"
    long, medium = f"{secret[:9]} " * 20_000, [f"{secret[:9]} " * 100] * 400
    for parts in (long, medium):
        data = {"parts": parts, "id": id, "at": 1763403458.123456789, "control": control, id: [2**60, None, control]}
        cleaned = at_once(tokens.data_steps(data))
        assert cleaned.pop("parts") != parts
        assert cleaned == {key: value for key, value in data.items() if key != "parts"}
        assert secret[:9] not in repr(at_once(tokens.data_steps({"parts": parts})))


class Nested(msgspec.Struct):
    """Wherever something may stand in data for clients."""

    text: str
    texts: tuple[str, ...]
    table: dict[str, Any]
    members: frozenset[str]
    inner: Nested | None = None


@each_row("filler", ["x", "x" * 100_000])
async def test_a_token_is_found_wherever_it_stands_in_data(filler: str) -> None:
    """S001-45: in strings, keys, lists, tuples and sets, at any depth, of short data and of long."""
    secret, redactor = token(1), Redactor()
    redactor.register_token(secret)
    inner = Nested(secret, (secret, filler), {secret: (secret, [secret, {"a": (secret,)}])}, frozenset({secret}))
    data = Nested(filler, (), {}, frozenset(), inner)
    shown = f"{secret[:8]}[redacted:token]"
    wanted = Nested(shown, (shown, filler), {shown: (shown, [shown, {"a": (shown,)}])}, frozenset({shown}))
    for cleaned in (redactor.without_tokens(data), await redactor.without_tokens_in_steps(data)):
        assert type(cleaned) is Nested
        assert msgspec.json.encode(cleaned) == msgspec.json.encode(Nested(filler, (), {}, frozenset(), wanted))
    assert await redactor.without_tokens_in_steps((secret, filler)) == (shown, filler)


def test_data_of_many_short_texts_made_of_parts_of_tokens_takes_bounded_time() -> None:
    """What is looked at closely is counted for all of them together."""
    secret, tokens = token(1), holding(*range(20))
    began = time.thread_time()
    cleaned = at_once(tokens.data_steps([f"{secret[:9]} " * 10] * 15_000))
    assert time.thread_time() - began < 0.5
    assert secret[:9] not in repr(cleaned)
    assert cleaned[0] == f"{secret[:8]}[redacted:token] " * 10
    assert cleaned[-1] == "[redacted:token] " * 10


def test_a_piece_that_is_made_of_parts_of_tokens_loses_all_long_numbers_from_there_on() -> None:
    """As a whole text does: also of a text that comes piece by piece."""
    secret = token(1)
    piece = f"{secret} " * 20_000
    cleaned = TokenStreamRedactor(holding(1)).clean(AgentMessageDelta(f"{piece}{token(7)} z", ItemId("i"), 0))
    assert secret not in cleaned["text"]
    assert token(7) not in cleaned["text"]
    assert cleaned["text"].endswith("[redacted:token] z")


def test_a_token_is_found_in_a_dump_without_any_other_character() -> None:
    """At every place within a block of five digits, where places are counted and not looked for."""
    secret, tokens = token(1), holding(1)
    for place in range(20_000, 20_005):
        dump = HEXADECIMAL[:place] + secret + HEXADECIMAL[place:100_000]
        assert tokens.text(dump) == f"{HEXADECIMAL[:place]}{secret[:8]}[redacted:token]{HEXADECIMAL[place:100_000]}"


TOKEN, OTHER = (hashlib.sha256(name).hexdigest() for name in (b"one", b"other"))


@pytest.fixture
def streams() -> TokenStreamRedactor:
    return new()


def new() -> TokenStreamRedactor:
    tokens = TokenRedactor()
    tokens.add(TOKEN)
    tokens.add(OTHER)
    return TokenStreamRedactor(tokens)


def cleaned_deltas(streams: TokenStreamRedactor, pieces: list[str], item: str = "i") -> list[AgentMessageDelta]:
    """What listeners get of a text that comes in these pieces."""
    offset, out = 0, []
    for piece in pieces:
        out.append(streams.clean(AgentMessageDelta(piece, ItemId(item), offset)))
        offset += len(piece)
    return out  # type: ignore[return-value]


@each_row("size", [1, 2, 3, 7, 8, 9, 10, 16, 31, 63, 64, 65, 500])
@each_row("text", [f"a {TOKEN} b {OTHER}.", TOKEN + OTHER, f"ff{TOKEN}ff", f"{TOKEN[:30]} {TOKEN}"])
def test_whatever_the_pieces_the_whole_is_what_it_would_be_at_once(size: int, text: str) -> None:
    """S001-45: and each piece stands where the one before ended."""
    tokens = TokenRedactor()
    tokens.add(TOKEN)
    tokens.add(OTHER)
    pieces = cleaned_deltas(new(), cut(text, size))
    assert "".join(piece.text for piece in pieces) == tokens.text(text)
    offset = 0
    for piece in pieces:
        assert piece.offset == offset
        offset += len(piece.text)


@given(st.lists(st.integers(1, 20), min_size=4, max_size=70), st.text("0123456789abcdefg ", max_size=20))
def test_no_way_of_cutting_shows_more_of_it(sizes: list[int], around: str) -> None:
    """S001-45."""
    text, pieces = f"{around}g{TOKEN}g{around}", []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    shown = "".join(piece.text for piece in cleaned_deltas(new(), [*pieces, text]))
    assert TOKEN[: VISIBLE_CHARACTERS + 1] not in shown
    assert TOKEN[VISIBLE_CHARACTERS : VISIBLE_CHARACTERS + 9] not in shown


def test_a_piece_without_a_token_in_it_stays_the_same_object(streams: TokenStreamRedactor) -> None:
    for data in (AgentMessageDelta("deadbeef00 face", ItemId("i"), 0), AgentMessageDelta(" more", ItemId("i"), 15)):
        assert streams.clean(data) is data
    whole: Any = AgentMessage(TOKEN, ItemId("i"))
    assert streams.clean(whole) is whole


def test_texts_that_are_written_side_by_side_are_told_apart(streams: TokenStreamRedactor) -> None:
    one, two = TOKEN[:8], TOKEN[8:]
    first = streams.clean(AgentReasoningDelta(one, ItemId("a"), 0))
    assert streams.clean(ExecCommandOutputDelta(CallId("c"), "stdout", two[:11], ItemId("b"), 0))["text"] == two[:11]
    assert (first["text"], streams.clean(AgentReasoningDelta(two, ItemId("a"), 8))["text"]) == (one, "[redacted:token]")


def test_one_that_begins_anew_is_new(streams: TokenStreamRedactor) -> None:
    """A request that is made again begins its text at 0."""
    cleaned_deltas(streams, [TOKEN[:8]])
    assert streams.clean(AgentMessageDelta(TOKEN[8:19], ItemId("i"), 0))["text"] == TOKEN[8:19]


def test_old_ones_are_forgotten_and_one_that_is_joined_later_goes_on(streams: TokenStreamRedactor) -> None:
    for number in range(300):
        streams.clean(AgentMessageDelta("x", ItemId(str(number)), 0))
    late = AgentMessageDelta("y", ItemId("0"), 1)
    assert streams.clean(late) is late
    assert len(streams._open) == 256
