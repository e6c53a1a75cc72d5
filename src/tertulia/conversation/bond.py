"""What another agent remembers of a conversation: its own id for it, and what that id rests on."""

from __future__ import annotations

import msgspec

from tertulia.protocol.usage import NO_USAGE, Usage


class Bond(msgspec.Struct, frozen=True):
    """Good for the same agent with the same home, in the same directory, and while the history is only added to."""

    native_id: str
    agent: tuple[str, ...]
    """Who made it, and where it keeps its talks."""
    cwd: str
    revision: int
    """Of the history."""
    total: Usage = NO_USAGE
    """What the talk has cost by the agent's own count."""

    def holds(self, agent: tuple[str, ...], cwd: str, revision: int) -> bool:
        """Whether the agent can go on with it."""
        return (self.agent, self.cwd, self.revision) == (agent, cwd, revision)
