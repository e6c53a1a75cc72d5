"""Numbered choices: what they offer, and what a typed line means."""

from __future__ import annotations

from typing import Any

from tertulia.cli.output.approval_question import ApprovalAnswer, FormField
from tertulia.cli.plain.questions import approval_choices, approval_lines, field_options, numbered, parse_choice
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, Because
from tests.cli.plain.test_lines import text_of
from tests.tables import each_row

SCOPES: list[Any] = ["once", "conversation", "session"]


def asked(**fields: Any) -> ApprovalRequest:
    about = {"title": "run: make", "detail": "make\nin /work", "matches": ["make"], "scopes": SCOPES, **fields}
    return ApprovalRequest("a", "exec", ConversationId("t"), [ConversationId("t"), ConversationId("r")], **about)


def test_the_choices_stand_in_one_line_with_their_numbers() -> None:
    choices = approval_choices(asked(hidden=3), "tester")
    assert numbered([choice.text for choice in choices]) == (
        "(1) yes once (2) yes for tester (3) yes for the session (4) no (5) no, because … (6) show what is hidden: "
    )


@each_row(
    "typed, expected",
    [
        ("1", (ApprovalAnswer("allow", "once"), False)),
        (" 2 ", (ApprovalAnswer("allow", "conversation"), False)),
        ("4", (ApprovalAnswer("deny"), False)),
        ("5", (ApprovalAnswer("deny"), True)),
        ("5 use make", (ApprovalAnswer("deny", message="use make"), False)),
        ("1 please", None),
        ("9", None),
        ("", None),
        ("y", (ApprovalAnswer("allow", "once"), False)),
        ("1st do the tests", None),
        ("१", None),
    ],
)
def test_only_what_was_offered_is_an_answer(typed: str, expected: Any) -> None:
    assert parse_choice(typed, approval_choices(asked(), "tester"), SCOPES) == expected


def test_who_asks_for_whom_and_why_is_told() -> None:
    request = asked(because=Because("rule", "session"))
    lines = [text_of(line) for line in approval_lines(request, "tester", ["root"], 80)]
    assert lines == ["tester asks: run: make", "  make", "  in /work", "  because: rule", "  for: root"]


def test_a_choice_of_a_form_is_numbered_and_a_text_is_typed() -> None:
    assert field_options(FormField("a", {"enum": ["red", "blue"]}, True)) == ["red", "blue"]
    assert field_options(FormField("b", {"type": "boolean"}, True)) == [True, False]
    assert field_options(FormField("c", {"type": "string"}, True)) is None
