"""How many calls each server has under way, of all sessions that share it; and who may look in when one is over."""

from __future__ import annotations

from collections.abc import Callable

Look = Callable[[], object]
"""Lets through whoever may pass."""


class Doors:
    """Shared by the turnstiles of a host. Fair between them: who let somebody through looks in last the next time.

    All of it runs on the loop's thread, and it has no limit of its own: each who comes says how many are too many.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}
        # In the order of turns.
        self._outside: dict[Look, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, nobody waits, and nothing is left of either."""
        return not (self._under_way or self._outside)

    def under_way(self, server: str) -> int:
        """How many calls it has."""
        return self._under_way.get(server, 0)

    def wait(self, look: Look) -> None:
        """Have this called whenever a call is over. Twice is once."""
        self._outside.setdefault(look)

    def go_away(self, look: Look) -> None:
        """Nobody waits there any more."""
        self._outside.pop(look, None)

    def enter(self, server: str, look: Look) -> None:
        """A call begins."""
        self._under_way[server] = self.under_way(server) + 1
        if look in self._outside:
            del self._outside[look]
            self._outside[look] = None

    def leave(self, server: str) -> None:
        """A call is over."""
        if self._under_way[server] > 1:
            self._under_way[server] -= 1
        else:
            del self._under_way[server]
        for look in list(self._outside):
            look()
