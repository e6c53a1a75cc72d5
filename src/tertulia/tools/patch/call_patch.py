"""The patch that a call of a tool is, for those who show it: what `edit` and `write` ask for reads like any patch.

Pure: no file is read, so lines around a change are those that the model gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tertulia.protocol.tool_spec import TEXT_EDITOR
from tertulia.tools.patch.text import BEGIN, END

FILE_TOOLS = frozenset({"apply_patch", "edit", "write", TEXT_EDITOR})
"""The tools that change files."""


def call_patch(name: str, arguments: Any, cwd: str = "") -> str | None:
    """The text of the patch; empty where it cannot be read, None for a call that changes no file.

    `cwd`: paths below it are written relative to it.
    """
    if name not in FILE_TOOLS:
        return None
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", arguments) if isinstance(arguments, Mapping) else {}
    if name == "apply_patch":
        text: object = fields.get("input") if fields else cast("object", arguments)
        return text if isinstance(text, str) else ""
    if fields.get("command") == "view":
        return None
    path = fields.get("path")
    lines = list(_lines(name, fields))
    if not isinstance(path, str) or not lines:
        return ""
    kind = "Add" if lines[0].startswith("+") else "Update"
    below = path.removeprefix(f"{cwd.rstrip('/')}/") if cwd else path
    return "\n".join([BEGIN, f"*** {kind} File: {below}", *lines, END])


def _lines(name: str, fields: Mapping[str, Any]) -> Iterator[str]:
    match fields:
        case {"content": str(content)} if name == "write":
            yield from _marked("+", content)
        case {"edits": [*edits]} if name == "edit":
            yield from _replacements(cast("Sequence[Any]", edits))
        case {"command": "create", "file_text": str(content)}:
            yield from _marked("+", content)
        case {"command": "str_replace", "old_str": str(old)}:
            yield from _replacements([{"old": old, "new": fields.get("new_str") or ""}])
        case {"command": "insert", "insert_text": str(text)} | {"command": "insert", "new_str": str(text)}:
            yield "@@"
            yield from _marked("+", text)
        case _:
            return


def _replacements(edits: Sequence[Any]) -> Iterator[str]:
    for edit in edits:
        match edit:
            case {"old": str(old), "new": str(new)}:
                yield "@@"
                yield from _marked("-", old)
                yield from _marked("+", new)
            case _:
                continue


def _marked(mark: str, text: str) -> list[str]:
    return [f"{mark}{line}" for line in text.removesuffix("\n").split("\n")] if text else []
