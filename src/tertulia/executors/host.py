"""What an agent that works for a conversation may ask of the house while it works: the interface on one screen.

Whoever implements it decides by the strictest rights of the whole chain, at the moment of each question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from tertulia.sandbox.runner import OnOutput, RunningCommand

ActionKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
"""What an agent says that it is about to do, in the words of ACP."""


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May the agent do this? Texts are the agent's own."""

    doing: ActionKind
    title: str
    detail: str
    """What there is to know besides the command; of all else everything."""
    words: tuple[str, ...]
    """All that a grant is bound to: the command's words, or the tool and its arguments."""
    paths: tuple[str, ...] = ()
    """The files that it will change, as far as it says."""
    call: str | None = None
    """By which the agent tells of it later."""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer."""

    allowed: bool
    lasting: bool = False
    """Nobody has to be asked again for the very same thing."""


class ExecutorHost(Protocol):
    """The house of one run. An AgentError is the answer to what is refused."""

    async def permit(self, question: PermissionQuestion) -> PermissionAnswer:
        """By the policy, or by a person; where nobody can be asked it is a no. Never raises an AgentError."""
        ...

    async def read(self, path: str) -> str:
        """A text file, as a command of the conversation would see it."""
        ...

    async def write(self, path: str, text: str, call: str) -> None:
        """Make it so, where a patch of the conversation could. `call`: the step in which it is done."""
        ...

    async def start(
        self, argv: tuple[str, ...], cwd: str | None, variables: Mapping[str, str], heard: OnOutput, call: str
    ) -> RunningCommand:
        """Run a command in the conversation's sandbox. Whoever started it sees to its end. `call` as in `write`."""
        ...
