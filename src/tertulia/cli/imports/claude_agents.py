"""Claude Code's sub-agents, a file of Markdown each: description, tools and instructions, as agents of ours.

Tools that such a file lists narrow the agent: one that lists no tool that writes works read-only, and of MCP servers it
sees the tools that are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tertulia.cli.imports.entries import Findings
from tertulia.errors import InvalidParamsError
from tertulia.policy.plain_file import decode_text, read_named_file
from tertulia.session.settings.agent_table import MAX_DESCRIPTION, MAX_INSTRUCTIONS_BYTES

_WRITING = frozenset({"Bash", "Edit", "MultiEdit", "NotebookEdit", "Write"})
_MCP = "mcp__"
_SAME_MODEL = frozenset({"inherit", ""})
_SILENT = frozenset({"color"})
_MOST = 64


def read_agents(folder: Path, found: Findings) -> None:
    """The agents of a folder, by file name."""
    for path in sorted(folder.glob("*.md"))[:_MOST]:
        source = str(path)
        found.files.append(source)
        try:
            head, text = _parts(path)
            table = _table(head, text, source, found)
        except InvalidParamsError as error:
            found.leave_out(source, "the whole file", error.message.removeprefix(f"{source}: "))
        else:
            found.add("agents", str(head.get("name") or path.stem), table, source)


def _parts(path: Path) -> tuple[Mapping[str, Any], str]:
    """What stands between the first lines of `---`, and the text below."""
    text = decode_text(read_named_file(str(path), MAX_INSTRUCTIONS_BYTES, str(path)), str(path))
    if not text.startswith("---\n"):
        return {}, text
    head, mark, body = text[4:].partition("\n---\n")
    if not mark:
        raise InvalidParamsError("its first part has no end: a line with --- alone")
    # Imported here: most runs read no YAML.
    from tertulia.models.plain_yaml import load_plain

    fields = load_plain(head)
    if not isinstance(fields, dict):
        raise InvalidParamsError("its first part must be names with values")
    return cast("dict[str, Any]", fields), body


def _table(head: Mapping[str, Any], text: str, source: str, found: Findings) -> dict[str, Any]:
    if not text.strip():
        raise InvalidParamsError("it has no instructions")
    table: dict[str, Any] = {"instructions": text.strip() + "\n"}
    description = " ".join(str(head.get("description", "")).split())
    if description:
        table["description"] = description[:MAX_DESCRIPTION]
    for key, value in head.items():
        if key == "tools":
            table |= _narrowed(value)
        elif key == "model" and value not in _SAME_MODEL:
            found.leave_out(source, f"model: {value}", 'write model = "anthropic/…" into its table for another one')
        elif key not in ("name", "description", "model", *_SILENT):
            found.leave_out(source, str(key), "it is not known here")
    return table


def _narrowed(tools: object) -> dict[str, Any]:
    entries = cast("list[object]", tools) if isinstance(tools, list) else str(tools).split(",")
    names = {str(entry).strip().partition("(")[0] for entry in entries}
    if "*" in names:
        return {}
    allowed = sorted(name.removeprefix(_MCP) for name in names if name.startswith(_MCP))
    # A whole server is named without a tool.
    allowlist = [name if "__" in name else f"{name}__*" for name in allowed]
    rights: dict[str, Any] = {"mcp_tool_allowlist": allowlist}
    return rights if names & _WRITING else {"sandbox": "read-only", "include_apply_patch_tool": False, **rights}
