"""When a key may answer a question: the rules that keep typed text from answering. Pure: the caller passes the time.

A key reaches the panel only while it has the focus. Where a person gave it the focus (by a key or a click), a key
answers once the question has been in view for a while. Where the panel took the focus by itself, a key that is soon
followed by another was the beginning of a text: both go to the composer.
"""

from __future__ import annotations

from typing import Literal

GUARD_S = 0.3
"""Seconds without an answer after a question came into view or the focus changed, and without a press after the window
came to the front.
"""
IDLE_S = 1.0
"""Seconds without any key before the panel may take the focus by itself."""
PAUSE_S = 0.5
"""Where the panel took the focus by itself: seconds after a key in which another key makes both typed text."""

KeyVerdict = Literal["act", "wait", "type", "ignore"]
"""`wait`: ask again with `due`. `type`: the key belongs to the composer, with the key that waited before it."""


class FocusRules:
    """Who has the focus and since when, which question is in view, and the last key."""

    __slots__ = (
        "_changed_at",
        "_focused",
        "_key_at",
        "_left",
        "_own_choice",
        "_question",
        "_typing",
        "_waiting",
        "_window_at",
    )

    def __init__(self) -> None:
        never = float("-inf")
        self._focused = False
        self._own_choice = False
        """Whether the panel took the focus by itself and has acted on no key since."""
        self._typing = False
        """Whether a key turned out to be typed text: so are those after it, until the focus moves."""
        self._question: str | None = None
        self._left: str | None = None
        """The question that the person left: the panel does not take the focus for it again."""
        self._changed_at = never
        self._key_at = never
        self._window_at = never
        self._waiting: tuple[str, float] | None = None

    @property
    def has_focus(self) -> bool:
        """Whether keys come to the panel."""
        return self._focused

    @property
    def waiting(self) -> str | None:
        """The key that acts unless another one follows soon."""
        return None if self._waiting is None else self._waiting[0]

    def key_typed(self, now: float) -> None:
        """A key went to the composer or to another part of the screen."""
        self._key_at = now

    def window_came_to_front(self, now: float) -> None:
        """The terminal's window got the focus; the mouse press that caused it is only for the window."""
        self._window_at = self._changed_at = now
        self._waiting = None

    def question_in_view(self, key: str | None, now: float) -> None:
        """The panel shows this question; None: it shows none."""
        if key != self._question:
            self._question, self._changed_at, self._waiting = key, now, None

    def may_take_focus(self, now: float, *, composer_empty: bool) -> bool:
        """Whether the panel may take the focus by itself."""
        if self._focused or self._question is None or self._question == self._left:
            return False
        return composer_empty and now - self._key_at >= IDLE_S

    def leave(self) -> None:
        """The person left the question in view for later; keys go elsewhere until the person comes back to it."""
        self._left = self._question

    def focused(self, now: float, *, by_itself: bool) -> None:
        """The panel has the focus now."""
        self._focused, self._typing, self._waiting = True, False, None
        # A mouse press that brought the window to the front chose the window, not the panel.
        self._own_choice = by_itself or now - self._window_at < GUARD_S
        self._changed_at = now

    def lost_focus(self, now: float) -> None:
        """Another part of the screen has the focus now."""
        self._focused = self._own_choice = self._typing = False
        self._changed_at, self._waiting = now, None

    def press(self, now: float) -> bool:
        """Whether a mouse press counts. One that counts is a person's choice of the panel."""
        if now - self._window_at < GUARD_S:
            return False
        if self._own_choice:
            self._own_choice, self._changed_at = False, now
        return True

    def may_answer(self, now: float) -> bool:
        """Whether an answer may be given at all."""
        return self._focused and self._question is not None and now - self._changed_at >= GUARD_S

    def key(self, key: str, now: float, *, means_something: bool) -> KeyVerdict:
        """What to do with a printable key that the panel got. `means_something`: it is one of the panel's keys."""
        self._key_at = now
        ready = means_something and self.may_answer(now)
        if self._typing or (self._own_choice and (self._waiting is not None or not ready)):
            self._typing = True
            return "type"
        if not ready:
            return "ignore"
        if self._own_choice:
            self._waiting = (key, now)
            return "wait"
        return "act"

    def take_waiting(self) -> str:
        """Take back the waiting key for the composer; empty where there is none."""
        waiting, self._waiting = self._waiting, None
        return "" if waiting is None else waiting[0]

    def due(self, now: float) -> str | None:
        """The key that has waited long enough and acts now; from then on the panel is the person's choice."""
        if self._waiting is None or now - self._waiting[1] < PAUSE_S:
            return None
        key, self._waiting, self._own_choice = self._waiting[0], None, False
        return key
