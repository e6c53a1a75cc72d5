"""What the keys of the approvals panel do for the question in view. Pure: returns what is to be sent or opened."""

from __future__ import annotations

from typing import Literal

import msgspec
from textual.message import Message

from tertulia.policy.display_text import visible
from tertulia.terminal.approvals.card import SCOPE_KEYS, TTLS, Scope, fact_lines
from tertulia.terminal.approvals.messages import ApprovalAnswered, ElicitationAnswered, PlanAnswered, WholeTextRequested
from tertulia.terminal.approvals.plan_question import PlanQuestion
from tertulia.terminal.approvals.question_queue import QuestionQueue
from tertulia.view.cells import ApprovalCell, ElicitationCell

EntryPurpose = Literal["refuse", "edit", "field"]
PANEL_KEYS = frozenset("ycspnmedgtxA")
"""Every key that has a meaning for at least one kind of question."""

KEYS_HELP: tuple[tuple[str, str], ...] = (
    ("y", "yes, once; of a form: send it"),
    ("c s p", "yes, for the conversation, the session, the project"),
    ("t", "how long such a yes holds"),
    ("n", "no"),
    ("m", "no, with a sentence for the model"),
    ("e", "no, with the command that it should run instead"),
    ("x", "cancel a form: give no answer"),
    ("d", "all of it on the whole screen"),
    ("g", "all that a yes which holds longer will match"),
    ("A", "the next answer is for all that ask exactly the same"),
    ("Tab", "the next question"),
)
"""What the keys do, for the page of help."""


class EntryOpening(msgspec.Struct, frozen=True):
    """The person is to type a sentence, another command or a value."""

    purpose: EntryPurpose
    text: str = ""


class ScreenOpening(msgspec.Struct, frozen=True):
    """The person wants to see all of a text."""

    title: str
    text: str
    is_patch: bool = False


Act = EntryOpening | ScreenOpening | Message


def acts_of(queue: QuestionQueue, key: str) -> list[Act]:
    """What a key does; where it does nothing, the note of the queue says why."""
    queue.note = ""
    if queue.is_answered:
        queue.note = "the answer was sent"
        return []
    match queue.current:
        case ApprovalCell() as question:
            return _approval_key(queue, question, key)
        case ElicitationCell() as question:
            return _elicitation_key(queue, question, key)
        case PlanQuestion() as question:
            return _plan_key(queue, question, key)
        case None:
            return []


def refuse(queue: QuestionQueue, text: str, *, instead: bool = False) -> list[Act]:
    """Answer no, with or without a sentence for the model. `instead`: the text is a command that it should run."""
    message = text.strip() or None
    question = queue.current
    if isinstance(question, PlanQuestion):
        queue.drop_plan(question.key)
        return [PlanAnswered(question.conversation_id, carry_out=False, message=message)]
    if instead and message is not None:
        message = f"Do not run that. Run this instead:\n{message}"
    addressed = _addressed(queue)
    for one in addressed:
        queue.mark_answered(one.key)
    queue.note = "no: sent"
    return [ApprovalAnswered(one.key, "deny", message=message) for one in addressed]


def _approval_key(queue: QuestionQueue, question: ApprovalCell, key: str) -> list[Act]:
    request = question.request
    if key in SCOPE_KEYS and SCOPE_KEYS[key] in request.scopes:
        return _allow(queue, SCOPE_KEYS[key])
    match key:
        case "n":
            return refuse(queue, "")
        case "m":
            return [EntryOpening("refuse")]
        case "e" if request.command is not None:
            return [EntryOpening("edit", request.script or request.command)]
        case "d":
            text = queue.state().whole_text or request.detail
            screen = ScreenOpening(request.title, "\n".join([text, *fact_lines(request)]), request.kind == "patch")
            # A text that could not be read before is requested once more.
            return [screen, WholeTextRequested(question.key)] if queue.misses_text() else [screen]
        case _:
            _change_view(queue, key)
            return []


def _change_view(queue: QuestionQueue, key: str) -> None:
    if key == "g":
        queue.show_matches = not queue.show_matches
    elif key == "t":
        queue.cycle_ttl()
    elif key == "A" and len(queue.alike()) > 1:
        queue.for_all = not queue.for_all
    else:
        queue.note = f"{key} is not offered for this question"


def _allow(queue: QuestionQueue, scope: Scope) -> list[Act]:
    if queue.misses_text():
        queue.note = "not yet: the rest of it is not here"
        return []
    ttl_s = TTLS[queue.state().ttl][0] if scope in ("conversation", "session") else None
    addressed = _addressed(queue)
    for one in addressed:
        queue.mark_answered(one.key)
    queue.note = "yes: sent"
    return [ApprovalAnswered(one.key, "allow", scope=scope, ttl_s=ttl_s) for one in addressed]


def _addressed(queue: QuestionQueue) -> list[ApprovalCell]:
    """The questions that an answer is for."""
    question = queue.current
    if queue.for_all:
        return queue.alike()
    return [question] if isinstance(question, ApprovalCell) else []


def _elicitation_key(queue: QuestionQueue, question: ElicitationCell, key: str) -> list[Act]:
    form = queue.form
    if key == " " and form is not None:
        form.toggle()
        return []
    actions: dict[str, Literal["accept", "decline", "cancel"]] = {"y": "accept", "n": "decline", "x": "cancel"}
    action = actions.get(key)
    if action is None:
        queue.note = f"{key} is not offered for this question"
        return []
    content = form.content() if action == "accept" and form is not None else None
    if action == "accept" and form is not None and content is None:
        queue.note = "not sent: see the marked fields"
        return []
    queue.mark_answered(question.key)
    queue.note = f"{action}: sent"
    return [ElicitationAnswered(question.key, action, content)]


def _plan_key(queue: QuestionQueue, question: PlanQuestion, key: str) -> list[Act]:
    match key:
        case "y":
            queue.drop_plan(question.key)
            return [PlanAnswered(question.conversation_id, carry_out=True)]
        case "n":
            return refuse(queue, "")
        case "m":
            return [EntryOpening("refuse")]
        case "d":
            return [ScreenOpening("the plan", visible(question.text, lines=True))]
        case _:
            queue.note = f"{key} is not offered for this question"
            return []
