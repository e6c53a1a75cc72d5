"""What `--debug` logs of the screen: sizes, keys by their names, frames, and what has the focus.

A character that a person types is never logged, only that one was typed: keys that write are texts.
"""

from __future__ import annotations

import logging

from textual.app import App
from textual.events import AppBlur, AppFocus, Event, Key, Paste, Resize

from tertulia.events.clock import Clock

_log = logging.getLogger(__name__)
_PERIOD_S = 1.0


class ScreenTrace:
    """Logs what happens to the screen. Does nothing where the log is off."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.on = _log.isEnabledFor(logging.DEBUG)
        """Whether the log is on."""
        self._since = clock.monotonic()
        self._frames = self._characters = 0
        self._slowest = 0.0
        self._last: Event | None = None

    def take(self, event: Event, app: App[int]) -> None:
        """What the terminal sent; `app`: knows what has the focus."""
        if not self.on or event is self._last:
            # A key that no widget wants comes by once more.
            return
        self._last = event
        focused = app.screen_stack[-1].focused if app.screen_stack else None
        match event:
            case Key(is_printable=True):
                self._characters += 1
            case Key(key=key):
                self._tell_characters()
                _log.debug("key %s, focus %s", key, type(focused).__name__)
            case Paste(text=text):
                _log.debug("paste of %d characters, focus %s", len(text), type(focused).__name__)
            case Resize(size=size):
                _log.debug("size %dx%d", size.width, size.height)
            case AppFocus() | AppBlur():
                _log.debug("the terminal is %sin view", "" if isinstance(event, AppFocus) else "not ")
            case _:
                pass

    def painted(self, began: float) -> None:
        """A frame was painted, from this time of the clock on."""
        if not self.on:
            return
        now = self._clock.monotonic()
        self._frames += 1
        self._slowest = max(self._slowest, now - began)
        if now - self._since >= _PERIOD_S:
            rate = self._frames / (now - self._since)
            _log.debug("%d frames, %.1f a second, slowest %.1f ms", self._frames, rate, self._slowest * 1000)
            self._since, self._frames, self._slowest = now, 0, 0.0

    def _tell_characters(self) -> None:
        if self._characters:
            _log.debug("%d characters were typed", self._characters)
            self._characters = 0
