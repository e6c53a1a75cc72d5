"""Questions to a person as numbered choices, and what a typed number means. Pure: prints and reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, cast

import msgspec

from tertulia.cli.output.approval_question import ApprovalAnswer, FormField, parse_answer, question_lines
from tertulia.cli.output.work_lines import Line
from tertulia.policy.approvals.approval_request import GrantScope
from tertulia.protocol.tool_events import ApprovalRequest

_SCOPES: tuple[tuple[GrantScope, str], ...] = (
    ("once", "yes once"),
    ("conversation", "yes for {name}"),
    ("session", "yes for the session"),
    ("project", "yes for this project, 30 days"),
)


class Choice(msgspec.Struct, frozen=True):
    """An answer that is given by its number."""

    text: str
    answer: ApprovalAnswer
    wants_reason: bool = False
    """The person is asked for a sentence, or gives it behind the number."""


def approval_choices(request: ApprovalRequest, name: str) -> list[Choice]:
    """The answers that this request can be given, in the order of their numbers."""
    allowing = [
        Choice(text.format(name=name), ApprovalAnswer("allow", scope))
        for scope, text in _SCOPES
        if scope in request.scopes
    ]
    more = [Choice("show what is hidden", ApprovalAnswer("more"))] if request.hidden else []
    no, reason = Choice("no", ApprovalAnswer("deny")), Choice("no, because …", ApprovalAnswer("deny"), True)
    return [*allowing, no, reason, *more]


def approval_lines(request: ApprovalRequest, name: str, waiting: Sequence[str], width: int | None) -> list[Line]:
    """What is asked by which conversation, where, in which sandbox, and why it was not simply run.

    `name`: of the conversation that asks; `waiting`: of those that wait for it, the outermost first.
    """
    first, *rest = question_lines(request, width)
    lines: list[Line] = [((f"{name} asks: ", "yellow"), *first[1:]), *rest]
    if request.because is not None:
        lines.append((("  because: ", "dim"), request.because.rule))
    if waiting:
        lines.append((("  for: ", "dim"), " › ".join(waiting)))
    return lines


def hidden_text(shown: str, whole: str) -> str:
    """What lies between the beginning and the end of a text that were shown."""
    start = _common_beginning(shown, whole)
    end = _common_beginning(shown[start:][::-1], whole[start:][::-1])
    return whole[start : len(whole) - end]


def _common_beginning(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def numbered(texts: Sequence[str]) -> str:
    """The choices in one line: `(1) yes once (2) no: `."""
    return " ".join(f"({number}) {text}" for number, text in enumerate(texts, 1)) + ": "


def parse_choice(
    typed: str, choices: Sequence[Choice], scopes: Sequence[GrantScope]
) -> tuple[ApprovalAnswer, bool] | None:
    """The answer in a typed line, and whether its reason is still to be asked for; None where it is no answer.

    A number, with the reason behind it where there is one. The letters and words of `exec` hold here, too.
    """
    word, _, rest = typed.strip().partition(" ")
    if not word.isascii() or not word.isdigit():
        answer = parse_answer(typed, scopes)
        return None if answer is None else (answer, False)
    index, reason = int(word[:4]) - 1, rest.strip()
    if not 0 <= index < len(choices):
        return None
    choice = choices[index]
    if not reason:
        return choice.answer, choice.wants_reason
    return (msgspec.structs.replace(choice.answer, message=reason), False) if choice.wants_reason else None


def field_options(field: FormField) -> list[Any] | None:
    """The values among which a field is chosen by number; None for one that is typed."""
    if isinstance(field.schema.get("enum"), list) and field.schema["enum"]:
        return cast("list[Any]", field.schema["enum"])
    return [True, False] if field.schema.get("type") == "boolean" else None


def option_text(option: Any) -> str:
    """A value of a form for people."""
    return {True: "yes", False: "no"}[option] if isinstance(option, bool) else str(option)
