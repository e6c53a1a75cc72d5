"""Long outputs made short."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import NewConversation, TextInput
from tertulia.protocol.items import ImagePart, TextPart
from tertulia.protocol.storage import NoStorage
from tertulia.tools.output_truncation import (
    MAX_IMAGE_BYTES,
    MAX_OUTPUT_BYTES,
    MAX_PARTS,
    bound,
    bound_output,
    bound_result,
    validate_outcome,
)
from tertulia.tools.tool import Handoff, Result
from tests.tables import each_row

TEXTS = st.text(st.characters() | st.sampled_from("a\n\0é€😀\ud800\udfff"), max_size=400)


@given(TEXTS, st.integers(0, 500))
def test_what_is_kept_fits_and_can_be_encoded(text: str, max_bytes: int) -> None:
    bounded = bound(text, max_bytes)
    assert len(bounded.text.encode()) <= max_bytes
    assert bounded.total_bytes == len(text.encode("utf-8", "surrogatepass"))
    assert bounded.truncated == (bounded.total_bytes > max_bytes)


@given(TEXTS)
def test_a_text_that_fits_is_kept_but_for_lone_surrogates(text: str) -> None:
    assert bound(text, 2_000).text == re.sub("[\ud800-\udfff]", "\ufffd", text)


@given(st.text("aé€😀\n", min_size=200, max_size=400), st.integers(120, 190))
def test_head_and_tail_are_those_of_the_text(text: str, max_bytes: int) -> None:
    shown = bound(text, max_bytes).text
    head, _, rest = shown.partition("\n[… ")
    _, _, tail = rest.rpartition(" …]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert abs(len(head.encode()) - len(tail.encode())) <= 8
    assert len(shown.encode()) > max_bytes - 8, "as much as fits"


def test_the_marker_tells_the_true_size() -> None:
    """G3: true size reported."""
    text = "".join(f"line {number}\n" for number in range(1_000_000))
    bounded = bound(text, 1_000)
    assert f"{len(text):,} bytes and 1,000,000 lines in all" in bounded.text
    assert bounded.text.startswith("line 0\nline 1\n")
    assert bounded.text.endswith("line 999999\n")


def test_a_last_line_without_an_end_counts() -> None:
    assert "3 lines" in bound("a" * 100 + "\nb\nc", 101).text


@each_row("max_bytes", [0, 1, 3, 60])
def test_without_room_for_the_marker_the_head_is_kept(max_bytes: int) -> None:
    assert bound("é" * 100, max_bytes).text == "é" * (max_bytes // 2)


def test_a_huge_text_is_not_copied_to_be_measured() -> None:
    """G3: 1 GiB of output costs at most 2 MiB; here a sixteenth of it, which shows a copy as well."""
    text = "é" * 32_000_000
    tracemalloc.start()
    try:
        assert bound(text, 65_536).total_bytes == 64_000_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


# ---- results with parts

PICTURE = ImagePart("data:image/png;base64," + "A" * 1_000)


def test_a_result_that_fits_is_as_it_was() -> None:
    result = Result("text", False, (TextPart("more"), PICTURE), NoStorage(), True)
    assert bound_result(result, 8) == (result, False)


def test_the_text_of_all_parts_together_is_bounded() -> None:
    parts = (TextPart("b" * 400), PICTURE, TextPart("c" * 400), TextPart("d"))
    result, truncated = bound_result(Result("a" * 400, parts=parts), 1_000)
    texts = [part.text for part in result.parts if isinstance(part, TextPart)]
    assert truncated
    assert result.text == "a" * 400
    assert texts[0] == "b" * 400
    assert texts[1].startswith("c")
    assert "400 bytes" in texts[1]
    assert texts[2] == ""
    assert len(result.text) + sum(len(text.encode()) for text in texts) <= 1_000
    assert PICTURE in result.parts


def test_a_lone_surrogate_in_a_part_is_replaced() -> None:
    result, truncated = bound_result(Result("", parts=(TextPart("\ud800"),)), 100)
    assert result.parts == (TextPart("\ufffd"),)
    assert not truncated


def test_pictures_that_are_too_large_together_are_left_out_and_it_is_said() -> None:
    huge = ImagePart("x" * MAX_IMAGE_BYTES)
    result, truncated = bound_result(Result("", parts=(PICTURE, huge, PICTURE)), 100)
    assert result.parts == (PICTURE, TextPart("[a picture of 16,777,216 bytes is left out]"), PICTURE)
    assert truncated


def test_there_are_only_so_many_parts() -> None:
    result, truncated = bound_result(Result("", parts=(PICTURE,) * (MAX_PARTS + 1)), 100)
    assert len(result.parts) == MAX_PARTS
    assert truncated


def test_a_result_comes_back_equal() -> None:
    result = Result("text", success=False, parts=(TextPart("more"), ImagePart("data:image/png;base64,AA==")))
    assert validate_outcome(result) == result


def test_a_handoff_keeps_its_target_its_input_and_its_own_rendering() -> None:
    handoff = Handoff(ConversationId("other"), (TextInput("hi"),), lambda result: Result(""), fork_history=2)
    assert validate_outcome(handoff) == handoff


def test_a_handoff_to_a_new_conversation_may_carry_a_wire() -> None:
    wire = ScriptedModel(["hi"])
    got = validate_outcome(Handoff(NewConversation(title="child", model=wire), (), lambda result: Result("")))
    assert isinstance(got, Handoff)
    assert isinstance(got.target, NewConversation)
    assert got.target.title == "child"
    assert got.target.model is wire


@each_row("returned", [None, "text", Result(None)])  # type: ignore[arg-type]
def test_anything_else_is_a_failure_that_names_what_came(returned: Any) -> None:
    text = f"the tool returned {type(returned).__name__} instead of a result"
    assert validate_outcome(returned) == Result(text, success=False)


@each_row(
    "returned",
    [
        Result("x", parts=(1,)),  # type: ignore[arg-type]
        Handoff(ConversationId("other"), (TextInput(None),), Result),  # type: ignore[arg-type]
        Handoff(ConversationId("other"), (), Result, fork_history=0),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_raised_and_never_passed_on(returned: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        validate_outcome(returned)


def test_a_text_is_bounded_by_the_limit_and_without_one_all_the_same() -> None:
    """G3."""
    short, cut = bound_output(Result("x" * 1_000), 100)
    assert cut
    assert len(short.text.encode()) <= 100
    long, cut = bound_output(Result("x" * (MAX_OUTPUT_BYTES + 1)), None)
    assert cut
    assert len(long.text.encode()) <= MAX_OUTPUT_BYTES
    assert bound_output(Result("as it was"), None) == (Result("as it was"), False)
