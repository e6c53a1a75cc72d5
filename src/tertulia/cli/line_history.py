"""What the arrow keys bring back at the terminal: lines of this run and, where they may be stored, of earlier ones."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from tertulia.session.settings.settings import LoadedSettings
from tertulia.terminal.composer.stored_lines import StoredLines


class LineHistory:
    """The history of `readline`, with the lines of earlier runs before it."""

    def __init__(self, stored: StoredLines) -> None:
        self._stored = stored
        self._readline = _load_readline()
        self._before = 0
        if self._readline is not None:
            for line in stored.load():
                self._readline.add_history(line)
            self._before = self._readline.get_current_history_length()

    @classmethod
    def of(cls, loaded: LoadedSettings) -> LineHistory:
        """The history under these settings, in their data directory."""
        return cls(StoredLines.of(loaded))

    def save(self) -> None:
        """Store the lines of this run, where lines are stored at all."""
        if self._readline is None:
            return
        end = self._readline.get_current_history_length()
        items = [self._readline.get_history_item(at + 1) for at in range(self._before, end)]
        self._stored.add([line for line in items if line])


def _load_readline() -> Any:
    """The module that makes `input` edit lines; None where Python was built without it."""
    if find_spec("readline") is None:
        return None
    import readline

    # A paste of several lines is one message.
    readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
