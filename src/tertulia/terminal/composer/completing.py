"""Completes the text before the cursor: keeps the list of choices, and inserts the chosen one."""

from __future__ import annotations

from collections.abc import Callable

from tertulia.terminal.composer.completion import Completions, Token, token_before
from tertulia.terminal.composer.editor import ComposerEditor
from tertulia.terminal.composer.sources import Sources

_LIST_KEYS = frozenset({"up", "down", "tab", "enter", "escape"})


class Completing:
    """The open list, and the keys that it takes while it is open."""

    def __init__(self, editor: Callable[[], ComposerEditor], sources: Sources, put: Callable[[str], None]) -> None:
        """`editor`: where the text is. `put`: replaces all of the text."""
        self.list = Completions()
        self._editor = editor
        self._sources = sources
        self._put = put

    def update(self) -> bool:
        """Update the list after the text has changed. Returns whether the list is another one."""
        token = self._token()
        was_open = self.list.is_open
        self.list.open(token, [] if token is None else self._sources.candidates(token))
        return was_open or self.list.is_open

    @property
    def needs_files(self) -> bool:
        """Whether file names are to be completed that have not been listed yet."""
        token = self.list.token
        return token is not None and token.kind == "mention" and self._sources.files is None

    def search_history(self) -> None:
        """Offer the entries of the history that contain what is written."""
        token = Token("history", self._editor().text, 0)
        self.list.open(token, self._sources.candidates(token))

    def key(self, key: str) -> bool:
        """Handle a key. Returns whether it was for the list."""
        if self.list.is_open and self._token() != self.list.token:
            # Keys may come faster than the news that the text has changed: the list is for what stands there now.
            self.update()
        if not self.list.is_open or key not in _LIST_KEYS:
            return False
        if key == "escape":
            self.list.close()
            return True
        if key in ("up", "down"):
            self.list.move(-1 if key == "up" else 1)
            return True
        return self._choose(key)

    def _choose(self, key: str) -> bool:
        chosen, token, editor = self.list.chosen, self.list.token, self._editor()
        if chosen is None or token is None:
            return False
        self.list.close()
        if token.kind == "history":
            self._put(chosen.text)
            return True
        if key == "enter" and chosen.text.rstrip() == editor.line_before_cursor.rstrip():
            # The choice is already in the text: Enter sends it.
            return False
        row, column = editor.cursor_location
        editor.replace(chosen.text, (row, column - token.length), (row, column))
        return True

    def _token(self) -> Token | None:
        editor = self._editor()
        if self.list.token is not None and self.list.token.kind == "history":
            return Token("history", editor.text, 0)
        row, _ = editor.cursor_location
        return token_before(editor.line_before_cursor, is_first_line=row == 0)
