"""The context provider that gives agents a canvas; `context/canvas.py` stores its pages."""

from __future__ import annotations

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.definitions import ToolDefinition, may_use
from tertulia.context.templates import load_template

_UPDATE = ToolDefinition(
    name="canvas_update",
    description="Show a page of HTML on your canvas, in place of what is there.",
    parameters={
        "type": "object",
        "properties": {
            "html": {"type": "string", "description": "The whole page; at most 512 KiB."},
            "title": {"type": "string", "description": "A short title for the page."},
        },
        "required": ["html"],
        "additionalProperties": False,
    },
    rpc_method="canvas.update",
    scope="service",
    context="Each update replaces the page, so always send all of it.",
)
_CLEAR = ToolDefinition(
    name="canvas_clear",
    description="Take the page off your canvas.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
    rpc_method="canvas.clear",
    scope="service",
)


class CanvasContextProvider:
    """The tools `canvas_update` and `canvas_clear` and a text on how to use them. Nothing for the archetype `repo`."""

    name = "canvas"
    priority = 60

    def get_tools(self, agent_name: str, meta: AgentInstanceMeta) -> list[ToolDefinition]:
        """Define the tools that change the canvas.

        Args:
            agent_name: The agent that is prepared.
            meta: Its description.

        Returns:
            Both tools for services and employees, none for others.
        """
        return [_UPDATE, _CLEAR] if may_use(meta.archetype, "service") else []

    def get_system_context(self, agent_name: str, meta: AgentInstanceMeta) -> str | None:
        """Explain how to use the canvas.

        Args:
            agent_name: The agent that is prepared.
            meta: Its description.

        Returns:
            The template `canvas-context` for services and employees, None for others.
        """
        return load_template("canvas-context") if may_use(meta.archetype, "service") else None
