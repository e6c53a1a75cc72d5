"""Has what stands before the cursor completed: keeps the list of choices, and puts the chosen one in."""

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
        """The text has changed. True: the list is another one."""
        token = self._token()
        was_open = self.list.is_open
        self.list.open(token, [] if token is None else self._sources.candidates(token))
        return was_open or self.list.is_open

    @property
    def needs_files(self) -> bool:
        """Whether names of files are to be completed that were not listed yet."""
        token = self.list.token
        return token is not None and token.kind == "mention" and self._sources.files is None

    def search_history(self) -> None:
        """Offer the entries of the history that contain what is written."""
        token = Token("history", self._editor().text, 0)
        self.list.open(token, self._sources.candidates(token))

    def key(self, key: str) -> bool:
        """Take a key. True: it was for the list."""
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
            # It stands there already: Enter sends it.
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
