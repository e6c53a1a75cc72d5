"""How a tool call looks in an editor: its title, its kind, the files it is about, and the changes it wants."""

from __future__ import annotations

import os.path
import re
import shlex
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import TertuliaError
from tertulia.policy.approvals.approval_request import script_of
from tertulia.policy.display_text import make_display_text
from tertulia.tools.patch.text import AddFile, DeleteFile, Hunk, UpdateFile, parse_patch

Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]

MAX_TITLE = 200
MAX_LINE = 2**32 - 1
MAX_DIFFS = 50
MAX_DIFF_CHARACTERS = 256 * 1024
"""Of all changes of one call together; what is more is left to the file itself."""

_TICKS = re.compile("`+")
_TITLES = {
    "web_search": "Search the web",
    "write_stdin": "Type into a running command",
    "conv_create": "Ask a new conversation",
    "conv_send": "Ask another conversation",
    "conv_list": "List the conversations",
    "conv_history": "Read another conversation",
    "conv_destroy": "Close a conversation",
}
_READ_VERBS = {"view_image": "Look at", "read_file": "Read"}
_KINDS: dict[str, Kind] = {
    "shell": "execute",
    "local_shell": "execute",
    "exec_command": "execute",
    "write_stdin": "execute",
    "apply_patch": "edit",
    "view_image": "read",
    "read_file": "read",
    "web_search": "search",
}


class ToolCallView(msgspec.Struct, frozen=True):
    """A call as it is first shown."""

    title: str
    kind: Kind
    locations: list[dict[str, Any]] = []
    content: list[dict[str, Any]] = []


def view_tool_call(name: str, arguments: Any, cwd: str) -> ToolCallView:
    """Never fails: what the model wrote may be anything."""
    kind = _KINDS.get(name, "other")
    if name == "apply_patch":
        return _patch(arguments, cwd)
    fields = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    if kind == "execute" and (command := _command(fields)) is not None:
        return ToolCallView(one_line(command), kind)
    if name in _READ_VERBS and isinstance(path := fields.get("path"), str):
        return ToolCallView(one_line(f"{_READ_VERBS[name]} {path}"), kind, [location(path, cwd, fields.get("line"))])
    if name in _TITLES:
        return ToolCallView(_TITLES[name], kind)
    server, split, tool = name.partition("__")
    return ToolCallView(one_line(f"{server}: {tool}" if split else name), kind)


def one_line(text: str) -> str:
    """A text as a title: in one line, not too long, and with nothing in it that hides."""
    words = " ".join(text[: MAX_TITLE * 4].split())
    return make_display_text(words if len(words) <= MAX_TITLE else words[: MAX_TITLE - 1] + "…").text


def location(path: str, cwd: str, line: object = None) -> dict[str, Any]:
    """A file, by its absolute path, and perhaps a line of it."""
    where = {"path": os.path.normpath(os.path.join(cwd, path))}
    return {**where, "line": line} if type(line) is int and 0 < line <= MAX_LINE else where


def fence_code(text: str) -> str:
    """A text that Markdown leaves as it is, whatever is in it."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _command(fields: dict[str, Any]) -> str | None:
    line, argv = fields.get("cmd"), fields.get("command")
    if isinstance(line, str):
        return line
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in cast("list[Any]", argv)):
        return None
    words = cast("list[str]", argv)
    script = script_of(words)
    return shlex.join(words) if script is None else script


def _patch(arguments: Any, cwd: str) -> ToolCallView:
    text = cast("dict[str, Any]", arguments).get("input") if isinstance(arguments, dict) else arguments
    try:
        hunks = parse_patch(text) if isinstance(text, str) else ()
    except TertuliaError:
        # The call will be refused, and its output says why.
        hunks = ()
    if not hunks:
        return ToolCallView("Edit files", "edit")
    paths = list(dict.fromkeys(_target(hunk) for hunk in hunks))
    verb = "Delete" if all(isinstance(hunk, DeleteFile) for hunk in hunks) else "Edit"
    return ToolCallView(
        one_line(f"{verb} {', '.join(paths)}"),
        "delete" if verb == "Delete" else "edit",
        [location(path, cwd) for path in paths],
        _diffs(hunks, cwd),
    )


def _target(hunk: Hunk) -> str:
    return hunk.move_to or hunk.path if isinstance(hunk, UpdateFile) else hunk.path


def _diffs(hunks: tuple[Hunk, ...], cwd: str) -> list[dict[str, Any]]:
    """Each place that changes, with the lines around it that the model gave: no file is read for this."""
    room = MAX_DIFF_CHARACTERS
    made: list[dict[str, Any]] = []
    for hunk in hunks:
        path = location(_target(hunk), cwd)["path"]
        for old, new in _changes(hunk):
            room -= len(old or "") + len(new)
            if room < 0 or len(made) >= MAX_DIFFS:
                return made
            before = {} if old is None else {"oldText": old}
            made.append({"type": "diff", "path": path, **before, "newText": new})
    return made


def _changes(hunk: Hunk) -> list[tuple[str | None, str]]:
    match hunk:
        case AddFile():
            return [(None, hunk.content)]
        case DeleteFile():
            # What was in it is not known here, and shown as empty it would look like an empty file.
            return []
        case UpdateFile():
            return [(_side(chunk.lines, "-"), _side(chunk.lines, "+")) for chunk in hunk.chunks]


def _side(lines: tuple[tuple[str, str], ...], mark: str) -> str:
    return "".join(f"{line}\n" for sign, line in lines if sign in (" ", mark))
