"""A message that is written anew, to be sent in a fork; where files were changed since, they can come back with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tertulia.terminal.panels.lines import Part, clean

_NAMED = 3


@dataclass
class ForkDraft:
    """What is known of the fork while the person writes."""

    key: str
    """The cell of the message that it replaces."""
    files: Sequence[str] = ()
    """The files that could come back."""
    restores: bool = False
    """Whether the person wants that."""

    def toggle(self) -> None:
        """Have the files come back, or not; where none could, nothing."""
        self.restores = bool(self.files) and not self.restores

    def rows(self) -> list[list[Part]]:
        """The rows above the editor that say what Enter does."""
        rows: list[list[Part]] = [
            [("Enter sends this in a fork that begins at that message; Esc forgets it", "bold yellow")]
        ]
        if self.files:
            named = ", ".join(clean(path) for path in self.files[:_NAMED])
            more = f" and {len(self.files) - _NAMED:,} more" if len(self.files) > _NAMED else ""
            are = "come back as they were then" if self.restores else "were changed since"
            key = "Alt+U leaves them" if self.restores else "Alt+U brings them back too"
            rows.append([(f"{key}; {are}: {named}{more}", "bold yellow" if self.restores else "yellow")])
        return rows
