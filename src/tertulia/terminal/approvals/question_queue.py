"""The open questions: which one is in view, what was chosen for it, and how those ended that were answered elsewhere.

Pure: shows and sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.terminal.approvals.card import TTLS, CardState, PanelQuestion, answer_text, time_left
from tertulia.terminal.approvals.forms import ElicitationForm
from tertulia.terminal.approvals.plan_question import PlanQuestion
from tertulia.view.cells import ApprovalCell, ElicitationCell, Question

_NOTE_S = 6.0
"""Seconds for which the panel says that a question was answered elsewhere."""


class QuestionQueue:
    """The open questions, oldest first. The choices for a question are kept while the person looks at others."""

    def __init__(self) -> None:
        self._questions: dict[str, PanelQuestion] = {}
        self._plans: dict[str, PlanQuestion] = {}
        self._past_plans: set[str] = set()
        self._key: str | None = None
        self._ttls: dict[str, int] = {}
        self._forms: dict[str, ElicitationForm] = {}
        self._texts: dict[str, str] = {}
        self._answered: set[str] = set()
        """Questions that this panel has answered, as long as they are in the list."""
        self._farewell = ("", float("-inf"))
        self.show_matches = False
        self.for_all = False
        self.note = ""

    def __len__(self) -> int:
        return len(self._questions)

    @property
    def current(self) -> PanelQuestion | None:
        """The question in view; None: none waits."""
        return None if self._key is None else self._questions.get(self._key)

    @property
    def form(self) -> ElicitationForm | None:
        """The form of the question in view, if it is one to be filled in."""
        question = self.current
        if not isinstance(question, ElicitationCell) or question.request.url is not None:
            return None
        return self._forms.setdefault(question.key, ElicitationForm(question.request.schema))

    @property
    def is_answered(self) -> bool:
        """Whether the question in view was answered here, and only the event of its end is missing."""
        return self._key in self._answered

    def take(self, questions: Sequence[Question], now: float) -> None:
        """Take the list of questions that are open now."""
        before = self._questions
        self._questions = {question.key: question for question in (*self._plans.values(), *questions)}
        for key in before.keys() - self._questions.keys():
            if key not in self._answered:
                self._farewell = (_ending(before[key]), now)
            self._forget(key)
        if self._key not in self._questions:
            self._view(next(iter(self._questions), None))

    def show_plan(self, plan: PlanQuestion | None) -> bool:
        """Ask about this plan before all other questions, replacing any other plan. Returns whether it is a new one."""
        wanted = None if plan is None or plan.key in self._past_plans else plan
        before = next(iter(self._plans), None)
        if before == (None if wanted is None else wanted.key):
            return False
        if before is not None:
            self.drop_plan(before)
        if wanted is not None:
            self._plans[wanted.key] = wanted
            self._questions = {wanted.key: wanted, **self._questions}
            self._view(wanted.key)
        return True

    def drop_plan(self, key: str) -> None:
        """Remove the plan question: it was answered, or is no longer to be asked."""
        self._past_plans.add(key)
        if self._plans.pop(key, None) is not None:
            self._questions.pop(key, None)
            self._forget(key)
            if self._key == key:
                self._view(next(iter(self._questions), None))

    def walk(self, step: int) -> None:
        """Look at the next question or the one before, around the ends."""
        keys = list(self._questions)
        if self._key in self._questions:
            self._view(keys[(keys.index(self._key) + step) % len(keys)])

    def cycle_ttl(self) -> None:
        """Choose the next time that a yes holds."""
        if self._key is not None:
            self._ttls[self._key] = (self._ttls.get(self._key, 0) + 1) % len(TTLS)

    def take_text(self, approval_id: str, text: str) -> None:
        """Keep the full text of a question, of which its event had only a part."""
        if approval_id in self._questions:
            self._texts[approval_id] = text

    def misses_text(self) -> bool:
        """Whether the question in view cannot be shown whole yet."""
        question = self.current
        return isinstance(question, ApprovalCell) and question.request.hidden > 0 and question.key not in self._texts

    def alike(self) -> list[ApprovalCell]:
        """The question in view and all that ask for exactly the same, oldest first."""
        question = self.current
        if not isinstance(question, ApprovalCell):
            return []
        digest, kind = question.request.digest, question.request.kind
        same = [one for one in self._questions.values() if isinstance(one, ApprovalCell)]
        return [
            one
            for one in same
            if one is question or (digest is not None and (one.request.digest, one.request.kind) == (digest, kind))
        ]

    def mark_answered(self, key: str, *, answered: bool = True) -> None:
        """Mark a question as answered; or as open again, after the answer has failed."""
        if answered:
            self._answered.add(key)
        else:
            self._answered.discard(key)

    def farewell(self, now: float) -> str:
        """How a question ended that was answered elsewhere; shown for a while after it has gone."""
        text, at = self._farewell
        return text if now - at < _NOTE_S else ""

    def has_time(self) -> bool:
        """Whether something in view changes with time."""
        question = self.current
        return isinstance(question, ApprovalCell) and bool(time_left(question.request.expires_at, 0.0))

    def state(self) -> CardState:
        """The state that the card of the question in view shows beside the question."""
        key = self._key or ""
        return CardState(
            position=list(self._questions).index(key) + 1 if key in self._questions else 0,
            count=len(self._questions),
            ttl=self._ttls.get(key, 0),
            alike=len(self.alike()),
            for_all=self.for_all,
            show_matches=self.show_matches,
            whole_text=self._texts.get(key),
            note=self.note,
        )

    def _view(self, key: str | None) -> None:
        self._key = key
        self.show_matches = self.for_all = False
        self.note = ""

    def _forget(self, key: str) -> None:
        self._answered.discard(key)
        for table in (self._ttls, self._forms, self._texts):
            table.pop(key, None)


def _ending(question: PanelQuestion) -> str:
    match question:
        case ApprovalCell(request=request, answer=answer):
            return f"{request.title}: {'it was withdrawn' if answer is None else answer_text(answer)}"
        case ElicitationCell(request=request, action=action):
            ending = {"accept": "answered", "decline": "declined"}.get(action or "", "cancelled")
            return f"the question of the MCP server {request.server}: {ending} elsewhere"
        case PlanQuestion():
            return ""
