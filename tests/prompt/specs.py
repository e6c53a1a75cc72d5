"""Tool definitions in a few words, for the tests of prompts, views and toolboxes."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.tool_spec import CONV_TOOLS, ToolSource, ToolSpec, fqn

BUILTINS = (
    *("shell", "bash", "local_shell", "exec_command", "write_stdin", "apply_patch"),
    *("view", "edit", "str_replace_based_edit_tool", "write", "grep", "glob"),
    *("update_plan", "view_image", "web_search"),
)
"""In the order of the contract."""


def schema(**properties: str) -> dict[str, Any]:
    """An object with properties of these types."""
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


def spec(name: str, source: ToolSource = "builtin", description: str = "", **properties: str) -> ToolSpec:
    """A tool of ours, of a provider, or of a user's function."""
    return ToolSpec.define(name, description or name, schema(**properties), source=source)


def mcp(server: str, tool: str, description: str = "", **properties: str) -> ToolSpec:
    """A tool of an MCP server."""
    return ToolSpec.define(fqn(server, tool), description, schema(**properties), source="mcp", server=server)


def every_kind() -> list[ToolSpec]:
    """All that a conversation can be offered, in the order of the contract."""
    return [
        *(spec(name) for name in BUILTINS),
        *(spec(name, "conv") for name in CONV_TOOLS),
        spec("zeta_canvas", "injector"),
        spec("alpha_canvas", "injector"),
        spec("zeta_function", "function"),
        spec("alpha_function", "function"),
        mcp("Zoo", "feed"),
        mcp("fs", "read"),
        mcp("fs", "write", path="string"),
    ]
