"""A token that is written piece by piece is seen no further than one that is written at once."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.token_redaction import VISIBLE_CHARACTERS, TokenRedactor, TokenStreamRedactor
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, AgentReasoningDelta
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.tool_events import ExecCommandOutputDelta
from tests.tables import each_row

TOKEN, OTHER = (hashlib.sha256(name).hexdigest() for name in (b"one", b"other"))


@pytest.fixture
def streams() -> TokenStreamRedactor:
    return new()


def new() -> TokenStreamRedactor:
    tokens = TokenRedactor()
    tokens.add(TOKEN)
    tokens.add(OTHER)
    return TokenStreamRedactor(tokens)


def told(streams: TokenStreamRedactor, pieces: list[str], item: str = "i") -> list[AgentMessageDelta]:
    """What listeners get of a text that comes in these pieces."""
    offset, out = 0, []
    for piece in pieces:
        out.append(streams.clean(AgentMessageDelta(piece, ItemId(item), offset)))
        offset += len(piece)
    return out  # type: ignore[return-value]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@each_row("size", [1, 2, 3, 7, 8, 9, 10, 16, 31, 63, 64, 65, 500])
@each_row("text", [f"a {TOKEN} b {OTHER}.", TOKEN + OTHER, f"ff{TOKEN}ff", f"{TOKEN[:30]} {TOKEN}"])
def test_whatever_the_pieces_the_whole_is_what_it_would_be_at_once(size: int, text: str) -> None:
    """S001-45: and each piece stands where the one before ended."""
    tokens = TokenRedactor()
    tokens.add(TOKEN)
    tokens.add(OTHER)
    pieces = told(new(), cut(text, size))
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
    shown = "".join(piece.text for piece in told(new(), [*pieces, text]))
    assert TOKEN[: VISIBLE_CHARACTERS + 1] not in shown
    assert TOKEN[VISIBLE_CHARACTERS : VISIBLE_CHARACTERS + 9] not in shown


def test_what_has_no_token_in_it_stays_the_same_object(streams: TokenStreamRedactor) -> None:
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
    told(streams, [TOKEN[:8]])
    assert streams.clean(AgentMessageDelta(TOKEN[8:19], ItemId("i"), 0))["text"] == TOKEN[8:19]


def test_old_ones_are_forgotten_and_one_that_is_joined_later_goes_on(streams: TokenStreamRedactor) -> None:
    for number in range(300):
        streams.clean(AgentMessageDelta("x", ItemId(str(number)), 0))
    late = AgentMessageDelta("y", ItemId("0"), 1)
    assert streams.clean(late) is late
    assert len(streams._open) == 256
