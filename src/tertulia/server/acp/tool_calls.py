"""The tool calls of an ACP session: how each looks in an editor, and its updates from its beginning to its end."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import TertuliaError
from tertulia.policy.approvals.approval_request import script_of
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.tool_spec import BASH, TEXT_EDITOR
from tertulia.server.acp.content import Update, fence_code, one_line, text_block
from tertulia.server.surface_events import HIDDEN_CALLS, SurfaceCalls
from tertulia.tools.patch.call_patch import call_patch
from tertulia.tools.patch.text import AddFile, DeleteFile, Hunk, UpdateFile, parse_patch

Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]

MAX_LINE = 2**32 - 1
MAX_DIFFS = 50
MAX_DIFF_CHARACTERS = 256 * 1024
"""Of all changes of one call together; what is more is left to the file itself."""

_TITLES = {
    "web_search": "Search the web",
    "write_stdin": "Type into a running command",
    "conv_create": "Ask a new conversation",
    "conv_send": "Ask another conversation",
    "conv_list": "List the conversations",
    "conv_history": "Read another conversation",
    "conv_destroy": "Close a conversation",
    "conv_merge": "Merge the work of a conversation",
}
_READ_VERBS = {"view_image": "Look at", "read_file": "Read", "view": "Read", TEXT_EDITOR: "Read"}
_SEARCH_VERBS = {"grep": "Search for", "glob": "Find"}
_KINDS: dict[str, Kind] = {
    "shell": "execute",
    "local_shell": "execute",
    "exec_command": "execute",
    "write_stdin": "execute",
    BASH: "execute",
    "view": "read",
    TEXT_EDITOR: "read",
    "grep": "search",
    "glob": "search",
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
    if (patch := call_patch(name, arguments, cwd)) is not None:
        return _patch(patch, cwd)
    fields = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    if kind == "execute" and (command := _command(fields)) is not None:
        return ToolCallView(one_line(command), kind)
    if name in _READ_VERBS and isinstance(path := fields.get("path"), str):
        return ToolCallView(one_line(f"{_READ_VERBS[name]} {path}"), kind, [location(path, cwd, fields.get("line"))])
    if name in _SEARCH_VERBS and isinstance(pattern := fields.get("pattern"), str):
        return ToolCallView(one_line(f"{_SEARCH_VERBS[name]} {pattern}"), kind)
    if name in _TITLES:
        return ToolCallView(_TITLES[name], kind)
    server, split, tool = name.partition("__")
    return ToolCallView(one_line(f"{server}: {tool}" if split else name), kind)


def location(path: str, cwd: str, line: object = None) -> dict[str, Any]:
    """A file, by its absolute path, and perhaps a line of it."""
    where = {"path": os.path.normpath(os.path.join(cwd, path))}
    return {**where, "line": line} if type(line) is int and 0 < line <= MAX_LINE else where


def _command(fields: dict[str, Any]) -> str | None:
    line, argv = fields.get("cmd"), fields.get("command")
    if isinstance(line, str):
        return line
    if isinstance(argv, str):
        return argv
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in cast("list[Any]", argv)):
        return None
    words = cast("list[str]", argv)
    script = script_of(words)
    return shlex.join(words) if script is None else script


def _patch(text: str, cwd: str) -> ToolCallView:
    try:
        hunks = parse_patch(text) if text else ()
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


Status = Literal["pending", "in_progress", "completed", "failed"]

MAX_OUTPUT = 8 * 1024
"""Characters of a running command's output that are shown: an update repeats all that is shown."""
_STEP = MAX_OUTPUT // 16


class AcpCall:
    """A call that has not ended."""

    __slots__ = ("content", "cwd", "exit_code", "id", "output", "terminal", "unshown")

    def __init__(self, id: str, cwd: str, content: list[dict[str, Any]]) -> None:
        self.id = id
        self.cwd = cwd
        """The directory that its conversation works in."""
        self.content = content
        self.output = ""
        self.unshown = 0
        """Characters of output that came since it was last shown."""
        self.terminal = False
        """Its output is shown in a terminal of the editor's."""
        self.exit_code: int | None = None

    def update(self, **fields: Any) -> Update:
        """What has changed of it."""
        return {"sessionUpdate": "tool_call_update", "toolCallId": self.id, **fields}


class AcpToolCalls(SurfaceCalls[AcpCall, Update]):
    """The open calls of a session. An id that a model uses again gets a new name."""

    def __init__(
        self,
        root: ConversationId,
        cwd: Callable[[ConversationId], str],
        label: Callable[[ConversationId], str],
        *,
        terminal: bool,
    ) -> None:
        """`label`: what stands before a call's title, to tell whose it is. `terminal`: the editor shows output."""
        super().__init__(root, cwd)
        self._label = label
        self._terminal = terminal
        self._used: dict[str, int] = {}

    def begin(self, event: Event, data: t.ToolCallBegin) -> list[Update]:
        """A call is about to be handled."""
        return self.begin_call(self._conversation(event), data)

    def begin_call(self, conversation: ConversationId, data: t.ToolCallBegin) -> list[Update]:
        """A call of a conversation, now or in its history."""
        if data.name in HIDDEN_CALLS:
            return []
        view = view_tool_call(data.name, data.arguments, self._cwd(conversation))
        call = self._add(conversation, data.call_id, view.content)
        return [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call.id,
                "title": self._label(conversation) + view.title,
                "kind": view.kind,
                "status": "pending",
                # Changes say it already, and can be large.
                **({} if view.content else {"rawInput": data.arguments}),
                **({"locations": view.locations} if view.locations else {}),
                **({"content": view.content} if view.content else {}),
            }
        ]

    def started(self, call: AcpCall) -> list[Update]:
        """Whatever had to be asked is settled: it runs."""
        return [call.update(status="in_progress")]

    def patching(self, call: AcpCall, data: t.PatchApplyBegin) -> list[Update]:
        """A patch is read, also one that came as a command."""
        paths = dict.fromkeys(change.get("move_to") or change["path"] for change in data.changes)
        return [call.update(locations=[location(path, call.cwd) for path in paths])]

    def running(self, call: AcpCall, data: t.ExecCommandBegin) -> list[Update]:
        """Show that the command of a call runs."""
        if not self._terminal:
            return [call.update(status="in_progress")]
        call.terminal = True
        call.content = [*call.content, {"type": "terminal", "terminalId": call.id}]
        info = {"terminal_info": {"terminal_id": call.id, "cwd": data.cwd}}
        return [call.update(status="in_progress", content=call.content, _meta=info)]

    def output(self, call: AcpCall, data: t.ExecCommandOutputDelta) -> list[Update]:
        """A command said something. Not every word is passed on at once: each update repeats what is shown."""
        if call.terminal:
            return [call.update(_meta={"terminal_output": {"terminal_id": call.id, "data": data.text}})]
        call.output = (call.output + data.text)[-MAX_OUTPUT:]
        call.unshown += len(data.text)
        if call.unshown < min(len(call.output) // 16, _STEP):
            return []
        call.unshown = 0
        return [call.update(content=[*call.content, _text(fence_code(call.output))])]

    def ran(self, call: AcpCall, data: t.ExecCommandEnd) -> list[Update]:
        """A command has ended; its call may go on."""
        call.exit_code = data.exit_code
        if not call.terminal:
            return []
        exit = {"terminal_id": call.id, "exit_code": data.exit_code, "signal": None}
        return [call.update(_meta={"terminal_exit": exit})]

    def end(self, event: Event, data: t.ToolCallEnd) -> list[Update]:
        """The one end of a call."""
        return self.end_call(self._conversation(event), data)

    def end_call(self, conversation: ConversationId, data: t.ToolCallEnd) -> list[Update]:
        """The end of a call of a conversation, now or in its history."""
        call = self._open.pop((conversation, data.call_id), None)
        if call is None:
            return []
        raw_output: dict[str, Any] = {
            "success": data.success,
            "truncated": data.truncated,
            "durationMs": data.duration_ms,
        }
        if call.exit_code is not None:
            raw_output["exitCode"] = call.exit_code
        content = call.content
        if not (call.terminal or (call.content and data.success)) and data.output:
            content = [*content, _text(fence_code(data.output))]
        status: Status = "completed" if data.success else "failed"
        return [call.update(status=status, rawOutput=raw_output, **({"content": content} if content else {}))]

    def searching(self, event: Event, data: t.WebSearchBegin) -> list[Update]:
        """The provider searches, for a call of ours or by itself."""
        if (call := self.find(event, data.call_id)) is not None:
            return self.started(call)
        conversation = self._conversation(event)
        call = self._add(conversation, data.call_id, [])
        title = self._label(conversation) + "Search the web"
        shown = {"toolCallId": call.id, "title": title, "kind": "search", "status": "in_progress"}
        return [{"sessionUpdate": "tool_call", **shown}]

    def searched(self, event: Event, data: t.WebSearchEnd) -> list[Update]:
        """Show that a search by the provider has ended."""
        conversation = self._conversation(event)
        call = self._open.pop((conversation, data.call_id), None)
        if call is None:
            return []
        title = one_line(f"Search the web: {data.query}") if data.query else "Search the web"
        return [call.update(status="completed", title=self._label(conversation) + title)]

    def abandon(self) -> list[Update]:
        """Nothing runs any more, and nothing may look as if it did: the reader was too slow to hear of an end."""
        left, self._open = list(self._open.values()), {}
        return [call.update(status="failed") for call in left]

    def _add(self, conversation: ConversationId, call_id: CallId, content: Sequence[dict[str, Any]]) -> AcpCall:
        times = self._used[call_id] = self._used.get(call_id, 0) + 1
        name = call_id if times == 1 else f"{call_id}#{times}"
        call = self._open[conversation, call_id] = AcpCall(name, self._cwd(conversation), list(content))
        return call


def _text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": text_block(text)}
