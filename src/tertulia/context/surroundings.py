"""What a conversation is told of the machine and the repository it works in, as it was when it was opened.

It does not change while the conversation lasts: what stands at the beginning of every request has to stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

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
