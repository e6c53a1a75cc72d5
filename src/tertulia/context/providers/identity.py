"""The context provider that tells an agent its name, archetype, backend and workspace."""

from __future__ import annotations

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.templates import load_template, render_template

_ARCHETYPES = {
    "repo": "You work on one repository for the user who started you, and you are done when the work is.",
    "service": "You stay and answer what others ask of you, one request at a time.",
    "employee": "You work on your own account over a long time: you keep your tasks in view and report what matters.",
}
_UNKNOWN = "This kind is not known here, so you have the rights of the least of all."


class CoreContextProvider:
    """Describes the agent and its surroundings, for every archetype."""

    name = "core-identity"
    priority = 90

    def get_system_context(self, agent_name: str, meta: AgentInstanceMeta) -> str:
        """Tell the agent what it is.

        Args:
            agent_name: The agent that is prepared.
            meta: Its description.

        Returns:
            The template `core-identity` with its variables replaced.
        """
        return render_template(
            load_template("core-identity"),
            {
                "agentName": agent_name,
                "archetype": meta.archetype,
                "archetypeDescription": _ARCHETYPES.get(meta.archetype, _UNKNOWN),
                "backendType": meta.backend_type,
                "workspacePolicy": meta.workspace_policy,
            },
        )
