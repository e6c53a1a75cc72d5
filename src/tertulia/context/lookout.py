"""Looks up what conversations are told of the machine and the repository they work in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from tertulia.context.git_repository import find_repository, git_directory, git_state
from tertulia.context.surroundings import Surroundings, TreeState
from tertulia.context.working_tree import is_clean
from tertulia.events.clock import Clock
from tertulia.tools.shell.command_tool import user_shell

_LASTS_S = 2.0
"""Conversations that are opened in one directory within so long are told the same."""
_MOST = 64


class Lookout:
    """Looks around for the conversations of a session."""

    def __init__(self, clock: Clock, variables: Mapping[str, str]) -> None:
        self._clock = clock
        self._shell = os.path.basename(user_shell(variables))
        machine = os.uname()
        self._platform = _plain(f"{machine.sysname} {machine.machine}")
        self._seen: dict[str, tuple[float, Surroundings]] = {}

    def look(self, cwd: str) -> Surroundings:
        """What is around this directory now. Never fails, and reads a bounded number of files."""
        now = self._clock.monotonic()
        seen = self._seen.get(cwd)
        if seen is not None and now - seen[0] < _LASTS_S:
            return seen[1]
        found = self._look(cwd)
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[cwd] = (now, found)
        return found

    def _look(self, cwd: str) -> Surroundings:
        date = datetime.fromtimestamp(self._clock.now(), UTC).astimezone().date().isoformat()
        plain = Surroundings(date, self._platform, self._shell)
        root = find_repository(cwd)
        store = None if root is None else git_directory(root)
        if root is None or store is None:
            return plain
        clean = is_clean(root, store)
        tree: TreeState = "unknown" if clean is None else "clean" if clean else "changed"
        return msgspec.structs.replace(plain, repository=_plain(root), head=_plain(git_state(root)), tree=tree)


def _plain(text: str) -> str:
    """Names are chosen by others: nothing in them begins or ends an element, or a line."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(letter if letter.isprintable() else "�" for letter in safe)
