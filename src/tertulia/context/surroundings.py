"""What a conversation is told of the machine and the repository it works in, as it was when it was opened.

It does not change while the conversation lasts: what stands at the beginning of every request has to stay the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from tertulia.context.git_repository import find_repository, git_directory, git_state
from tertulia.events.clock import Clock

TreeState = Literal["clean", "changed", "unknown"]


class Surroundings(msgspec.Struct, frozen=True):
    """All of it as words; none of them can end the element that it stands in."""

    date: str
    platform: str
    shell: str
    repository: str = ""
    """The top of the repository; empty where there is none."""
    head: str = ""
    """The branch or commit, and what is in progress."""
    tree: TreeState = "unknown"
    """Whether something is changed, or new, since the last commit."""

    def lines(self) -> list[str]:
        """The elements of the environment's message."""
        lines = [f"  <date>{self.date}</date>", f"  <platform>{self.platform}</platform>"]
        lines.append(f"  <shell>{self.shell}</shell>")
        if self.repository:
            state = f"{self.head}, {_WORDS[self.tree]}"
            lines += [
                f"  <repository>{self.repository}</repository>",
                f"  <repository_state>{state}</repository_state>",
            ]
        return lines


_WORDS: Mapping[TreeState, str] = {
    "clean": "clean",
    "changed": "not clean: there are changes that are not committed",
    "unknown": "whether it is clean was not looked up",
}

_LASTS_S = 2.0
"""Conversations that are opened in one directory within so long are told the same."""
_MOST = 64


class Lookout:
    """Looks around for the conversations of a session."""

    def __init__(self, clock: Clock, variables: Mapping[str, str]) -> None:
        self._clock = clock
        self._shell = _shell_name(variables)
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
        # Imported here: it reads the index of a repository, and most of what is below it is used by nothing else.
        from tertulia.context.working_tree import is_clean

        clean = is_clean(root, store)
        tree: TreeState = "unknown" if clean is None else "clean" if clean else "changed"
        return msgspec.structs.replace(plain, repository=_plain(root), head=_plain(git_state(root)), tree=tree)


def _plain(text: str) -> str:
    """Names are chosen by others: nothing in them begins or ends an element, or a line."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(letter if letter.isprintable() else "�" for letter in safe)


def _shell_name(variables: Mapping[str, str]) -> str:
    """The name of the shell that runs command lines, as `user_shell` of the tools chooses it, without loading them."""
    if variables.get("SHELL", "") in ("/bin/sh", "/usr/bin/sh"):
        return "sh"
    return "bash" if os.path.exists("/bin/bash") else "sh"
