"""What a tool returned, rebuilt as the interface says. What dispatch makes of a mistake is in test_dispatch."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import NewConversation, TextInput
from tertulia.protocol.items import ImagePart, TextPart
from tertulia.tools.output import MAX_OUTPUT_BYTES, bound_output, validate_outcome
from tertulia.tools.tool import Handoff, Result


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


@pytest.mark.parametrize("returned", [None, "text", Result(None)])  # type: ignore[arg-type]
def test_anything_else_is_a_failure_that_names_what_came(returned: Any) -> None:
    said = f"the tool returned {type(returned).__name__} instead of a result"
    assert validate_outcome(returned) == Result(said, success=False)


@pytest.mark.parametrize(
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
