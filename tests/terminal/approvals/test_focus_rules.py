"""Typed text never answers: the rules as a law over every order of events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.terminal.approvals.focus_rules import GUARD_S, IDLE_S, PAUSE_S, FocusRules
from tests.thorough import examples

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["key", "other_key", "typed", "window", "question", "focus", "blur", "tick", "press"]),
        st.sampled_from([0.0, 0.05, 0.2, 0.29, 0.31, 0.49, 0.51, 0.99, 1.01, 3.0]),
    ),
    max_size=60,
)


class Witness:
    """Lives through the same events as the rules, and knows nothing but when each came."""

    def __init__(self) -> None:
        self.rules = FocusRules()
        self.now = 0.0
        self.focused = False
        self.chosen = False
        self.changed_at = self.window_at = float("-inf")
        self.keys = [0.0]
        self.questions = 0

    def acts(self) -> None:
        """An answer is given now, by the last key: it may be so only by all of these."""
        key_at = self.keys[-1]
        assert self.focused, "a key answered without the focus"
        assert key_at - self.changed_at >= GUARD_S, "a key answered too soon after a question or the focus came"
        if not self.chosen:
            assert self.now - key_at >= PAUSE_S, "a key answered at once though the panel took the focus by itself"

    def key(self) -> None:
        if self.focused:
            since, before = self.now - self.keys[-1], self.rules.waiting
            self.keys.append(self.now)
            verdict = self.rules.key("y", self.now, means_something=True)
            assert verdict != "wait" or before is None, f"typed text waited to answer, {since} s after a key"
            if verdict == "act":
                assert self.chosen
                self.acts()

    def other_key(self) -> None:
        if self.focused:
            self.keys.append(self.now)
            assert self.rules.key("q", self.now, means_something=False) in ("type", "ignore")

    def typed(self) -> None:
        self.rules.key_typed(self.now)

    def window(self) -> None:
        self.rules.window_came_to_front(self.now)
        self.window_at = self.changed_at = self.now

    def question(self) -> None:
        self.questions += 1
        self.rules.question_in_view(f"q{self.questions}", self.now)
        self.changed_at = self.now

    def focus(self) -> None:
        by_itself = self.rules.may_take_focus(self.now, composer_empty=True)
        self.rules.focused(self.now, by_itself=by_itself)
        self.focused, self.changed_at = True, self.now
        self.chosen = not by_itself and self.now - self.window_at >= GUARD_S

    def blur(self) -> None:
        self.rules.lost_focus(self.now)
        self.focused, self.changed_at = False, self.now

    def press(self) -> None:
        if self.rules.press(self.now):
            assert self.now - self.window_at >= GUARD_S
            if self.focused and not self.chosen:
                self.chosen, self.changed_at = True, self.now

    def tick(self) -> None:
        if self.rules.due(self.now) is not None:
            self.acts()
            self.chosen = True


@settings(max_examples=examples(3_000), deadline=None)
@given(STEPS)
def test_a_key_answers_only_where_no_rule_forbids_it(steps: list[tuple[str, float]]) -> None:
    witness = Witness()
    for step, pause in steps:
        witness.now += pause
        getattr(witness, step)()


def test_the_panel_takes_the_focus_by_itself_only_after_a_second_without_a_key() -> None:
    rules = FocusRules()
    rules.question_in_view("q", 0.0)
    rules.key_typed(10.0)
    assert not rules.may_take_focus(10.0 + IDLE_S - 0.01, composer_empty=True)
    assert not rules.may_take_focus(10.0 + IDLE_S, composer_empty=False)
    assert rules.may_take_focus(10.0 + IDLE_S, composer_empty=True)


def test_a_key_that_another_follows_was_typed_text() -> None:
    rules = FocusRules()
    rules.question_in_view("q", 0.0)
    rules.focused(1.0, by_itself=True)
    assert rules.key("y", 2.0, means_something=True) == "wait"
    assert rules.key("e", 2.2, means_something=True) == "type"
    assert rules.take_waiting() == "y"
    assert rules.key("s", 2.9, means_something=True) == "type"
    assert rules.due(9.0) is None


def test_a_key_alone_acts_after_a_pause() -> None:
    rules = FocusRules()
    rules.question_in_view("q", 0.0)
    rules.focused(1.0, by_itself=True)
    assert rules.key("y", 2.0, means_something=True) == "wait"
    assert rules.due(2.4) is None
    assert rules.due(2.5) == "y"
    assert rules.key("n", 2.6, means_something=True) == "act"


def test_a_press_that_brought_the_window_to_the_front_is_ignored() -> None:
    """HARDENING: a click that focuses the window answers nothing."""
    rules = FocusRules()
    rules.question_in_view("q", 0.0)
    rules.focused(1.0, by_itself=False)
    rules.window_came_to_front(10.0)
    assert not rules.press(10.1)
    assert not rules.may_answer(10.1)
    assert rules.press(10.4)


def test_a_question_that_was_left_takes_the_focus_no_more_and_the_next_one_does() -> None:
    """So that Esc, pressed again however late, reaches what stops the chain."""
    rules = FocusRules()
    rules.question_in_view("q", 0.0)
    rules.focused(1.0, by_itself=True)
    rules.leave()
    rules.lost_focus(2.0)
    assert not rules.may_take_focus(60.0, composer_empty=True)
    rules.question_in_view("another", 61.0)
    assert rules.may_take_focus(62.0, composer_empty=True)
