"""The text that tells an agent of its internal tools."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.context.offers import ToolDefinition
from tertulia.context.parameters import usage
from tertulia.context.templates import load_template, render_template

MAX_ENTRY = 4_000
"""Characters in the list, of one tool."""


def tool_block(tools: Sequence[ToolDefinition], token: str | None) -> str:
    """How to call them from a shell with the token; without one, that they can be called like any other tool."""
    listed = "\n".join(map(tool_lines, tools))
    if token is None:
        return render_template(load_template("tools-at-hand"), {"toolList": listed})
    return render_template(load_template("tool-instructions"), {"toolList": listed, "token": token})


def tool_lines(tool: ToolDefinition) -> str:
    """A tool in the list: name and description, a line that shows its arguments, then more if there is more."""
    lines = [f"- {tool.name}: {_indented(tool.description)}", f"  Usage: {tool.name} {usage(tool.parameters or {})}"]
    if tool.context and tool.context.strip():
        lines.append(f"  {_indented(tool.context)}")
    entry = "\n".join(lines)
    # The definition has all of it; here a long one would drive out what others have to say.
    return entry if len(entry) <= MAX_ENTRY else f"{entry[:MAX_ENTRY]}…"


def _indented(text: str) -> str:
    # A line of somebody's description must not look like the next tool.
    return "\n  ".join(line.strip() for line in text.strip().splitlines())
