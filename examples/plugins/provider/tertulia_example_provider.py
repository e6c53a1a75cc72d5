"""A context provider from outside: every agent is told what lies at the front desk."""

from __future__ import annotations

import tertulia


class Lobby(tertulia.ContextProvider):
    """Has something to say to agents, and changes nothing."""

    name = "lobby"

    def get_system_context(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> str:
        """One text, before the agent starts."""
        return f"## The lobby\n\nThere is a letter for {agent_name}."
