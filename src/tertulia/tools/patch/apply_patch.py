"""`apply_patch`: the model changes files. All of a patch is applied, inside the sandbox, or nothing is."""

from __future__ import annotations

import base64
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, SandboxError, TertuliaError
from tertulia.protocol.tool_events import ApprovalFile, Decider, PatchApplyBegin, PatchApplyEnd, PatchChange
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.sandbox.mounts.nested_protected import protected_part
from tertulia.tools.editor import EditorFile, EditorView
from tertulia.tools.patch import disk_program
from tertulia.tools.patch.match import WorkBudget
from tertulia.tools.patch.plan import PatchPlan, Read, approval_files, count_lines, make_plan, touched_paths
from tertulia.tools.patch.text import AddFile, DeleteFile, Hunk, UpdateFile, parse_patch
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext, ChangingTool, Outcome, Result

Confined = Callable[[tuple[str, ...], bytes, CallContext], Awaitable[bytes]]
"""Runs a program with this input in the call's directory, confined by the call's rights; returns its output.

Raises SandboxError or SandboxUnavailable where the program could not run to its end.
"""

CheckPaths = Callable[[Sequence[str], CallContext], None]
"""Raises InvalidParams for paths that may not be changed, or whose changes would be lost; reads no file."""

Approve = Callable[[str, tuple[ApprovalFile, ...], CallContext], Awaitable[Decider]]
"""Returns when this text, which changes these files, may be applied; raises ApprovalDeniedError if it may not."""

DISK_COMMAND = (sys.executable, "-I", str(Path(disk_program.__file__)))
"""Runs `disk_program` by its path: nothing of this package is imported inside the sandbox."""

MAX_ANSWER_BYTES = disk_program.MAX_READ_BYTES * 2
"""The most output of `disk_program` that is read."""

_GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

_SPEC = ToolSpec.define(
    "apply_patch",
    "Use the `apply_patch` tool to edit files. A patch stands between `*** Begin Patch` and `*** End Patch` and holds, "
    "for each file, `*** Add File: PATH` with lines that begin with `+`, or `*** Delete File: PATH`, or `*** Update "
    "File: PATH` (then perhaps `*** Move to: PATH`) with places that begin with `@@` or `@@ a line before`, whose "
    "lines begin with a blank (stays), `-` (goes) or `+` (comes). Give three lines around each change. Paths are "
    "relative. The whole patch is applied, or nothing of it. This is free text: do not wrap it in JSON.",
    kind="custom",
    grammar=_GRAMMAR,
)


class _Patch(msgspec.Struct):
    """A patch that is being applied."""

    text: str
    hunks: Sequence[Hunk]
    call: CallContext
    allowed_by: Decider | None = None


class ApplyPatch(ChangingTool):
    """Reads the files, computes their new contents, asks for approval, and writes them if they are unchanged since."""

    __slots__ = ("_approve", "_check_paths", "_confined", "_editor")
    spec = _SPEC

    def __init__(
        self, confined: Confined, approve: Approve, check_paths: CheckPaths, editor: EditorView | None = None
    ) -> None:
        """`editor`: the client's editor, in which files may have unsaved changes; None: only the disk counts."""
        self._confined = confined
        self._approve = approve
        self._check_paths = check_paths
        self._editor = editor

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse text that is no patch, and paths outside the working directory or protected; reads no file."""
        paths = touched_paths(parse_patch(arguments))
        if call.rights.sandbox != "danger_full_access":
            check_unprotected(paths)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Apply the whole patch. On an error or a cancellation every file is left as it was."""
        hunks = parse_patch(arguments)
        call.publish(PatchApplyBegin(call_id=call.call_id, changes=[_described(hunk) for hunk in hunks]))
        result, patch = Result("interrupted", success=False), _Patch(arguments, hunks, call)
        try:
            result = await self._apply(patch)
        except TertuliaError as error:
            result = Result(error.message, success=False)
            raise
        finally:
            call.publish(PatchApplyEnd(call.call_id, result.success, result.text, patch.allowed_by))
        return result

    async def _apply(self, patch: _Patch) -> Result:
        hunks, call = patch.hunks, patch.call
        if not hunks:
            return Result("No files were modified.", success=False)
        self._check_paths(touched_paths(hunks), call)
        answer = await self._on_disk({"verb": "read", "paths": touched_paths(hunks)}, call)
        files = {path: _bytes(content) for path, content in answer["files"].items()}
        if self._editor is not None:
            seen = await self._editor.look(touched_paths(hunks), call)
            unsaved = [path for path, file in seen.items() if file.unsaved() is not None]
            if unsaved:
                return await self._in_editor(patch, unsaved[0], seen[unsaved[0]], self._editor)
        plan = await _planned(hunks, files.get)
        patch.allowed_by = await self._approve(patch.text, approval_files(hunks, plan), call)
        await self._on_disk(plan.for_disk(), call)
        return Result(_success(plan))

    async def _in_editor(self, patch: _Patch, path: str, file: EditorFile, editor: EditorView) -> Result:
        """Change a file in the editor that has unsaved changes there: a change on disk would conflict with them.

        One file at a time: an editor cannot change several files atomically.
        """
        hunks, call = patch.hunks, patch.call
        if touched_paths(hunks) != [path] or not all(isinstance(hunk, UpdateFile) for hunk in hunks):
            raise InvalidParamsError(
                f"{path} has changes in the user's editor that are not saved: it can only be updated, by a patch of "
                "its own, or ask for it to be saved; nothing was changed"
            )
        try:
            plan = await _planned(hunks, {path: file.unsaved()}.get)
        except InvalidParamsError as error:
            hint = "it has changes in the user's editor that are not saved, see read_file"
            raise InvalidParamsError(f"{error.message} ({hint})") from None
        patch.allowed_by = await editor.approve(patch.text, path, approval_files(hunks, plan), call)
        exact = [await editor.write(path, file, (change.new or b"").decode(), call) for change in plan.changes]
        note = "Done in the user's editor, with changes that were not saved there."
        other = "" if all(exact) else " It reads differently now, formatted perhaps: read it again."
        return Result(f"{_success(plan)}\n{note}{other}")

    async def _on_disk(self, request: dict[str, Any], call: CallContext) -> dict[str, Any]:
        output = await self._confined(DISK_COMMAND, msgspec.json.encode(request), call)
        try:
            answer = msgspec.json.decode(output, type=dict[str, Any])
        except msgspec.DecodeError:
            raise SandboxError(f"the patch was not applied: {output[-500:].decode('utf-8', 'replace')!r}") from None
        check_disk_answer(answer, "the patch")
        return answer


def check_disk_answer(answer: dict[str, Any], what: str) -> None:
    """Raise the error that `disk_program` reports, if any. `what` names the patch or the merge in the message."""
    if not answer.get("undone", True):
        reason = f"{answer['path']}: {answer['reason']}"
        raise SandboxError(f"{what} failed, and it could not be undone: look at its files ({reason})")
    if not answer["ok"]:
        raise InvalidParamsError(f"{answer['path']}: {answer['reason']}; nothing was changed")


def check_unprotected(paths: Iterable[str]) -> None:
    """Refuse protected names such as `.git`, at any depth of a path and in any spelling.

    The sandbox alone does not suffice: it protects what exists, and a patch can create a repository.
    """
    for path in paths:
        if (part := protected_part(path)) is not None:
            raise InvalidParamsError(f"invalid patch: '{path}' lies in or is '{part}', which is protected from changes")


async def _planned(hunks: Sequence[Hunk], read: Read) -> PatchPlan:
    """Plan in a thread; if the caller is cancelled, the thread stops soon after."""
    effort = WorkBudget()
    try:
        return await run_in_thread(make_plan, hunks, read, effort)
    finally:
        effort.stop()


def _bytes(encoded: str | None) -> bytes | None:
    return None if encoded is None else base64.b64decode(encoded)


def _described(hunk: Hunk) -> PatchChange:
    """What the hunk itself says. The length of a deleted file is not known: no file has been read yet."""
    match hunk:
        case AddFile():
            return {"kind": "add", "path": hunk.path, "added": count_lines(hunk.content.encode())}
        case DeleteFile():
            return {"kind": "delete", "path": hunk.path}
        case UpdateFile():
            marks = [mark for chunk in hunk.chunks for mark, _ in chunk.lines]
            change: PatchChange = {"kind": "update", "path": hunk.path}
            if hunk.move_to:
                change["move_to"] = hunk.move_to
            return {**change, "added": marks.count("+"), "removed": marks.count("-")}


def _success(plan: PatchPlan) -> str:
    order = sorted(plan.summary, key=lambda entry: "AMD".index(entry[0]))
    return "\n".join(["Success. Updated the following files:", *(f"{letter} {path}" for letter, path in order)])
