"""Applies changes of files that a model asks for, by a patch or by the tools `edit` and `write`: all of them or none.

The files are read in the sandbox, their new contents computed here, an approver is asked, and they are written in the
sandbox if they are still what was read. Whatever tool the changes come from, rights, approvals and events are the same.
"""

from __future__ import annotations

import base64
import os.path
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, SandboxError, TertuliaError
from tertulia.protocol.tool_events import ApprovalFile, Decider, PatchApplyBegin, PatchApplyEnd
from tertulia.sandbox.mounts.nested_protected import protected_part
from tertulia.tools.confined_program import confined_program
from tertulia.tools.editor import EditorFile, EditorView
from tertulia.tools.patch import disk_program
from tertulia.tools.patch.description import approval_files, described_change, patch_text
from tertulia.tools.patch.match import WorkBudget
from tertulia.tools.patch.plan import FileChange, PatchPlan, Read, make_plan, touched_paths
from tertulia.tools.patch.read_files import ReadFiles, difference
from tertulia.tools.patch.replacement import InsertText, ReplaceText, WriteFile
from tertulia.tools.patch.text import UpdateFile
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext, ChangingTool, Result

Confined = Callable[[tuple[str, ...], bytes, CallContext], Awaitable[bytes]]
"""Runs a program with this input in the call's directory, confined by the call's rights; returns its output.

Raises SandboxError or SandboxUnavailable where the program could not run to its end.
"""

CheckPaths = Callable[[Sequence[str], CallContext], None]
"""Raises InvalidParams for paths that may not be changed, or whose changes would be lost; reads no file."""

Approve = Callable[[str, tuple[ApprovalFile, ...], CallContext], Awaitable[Decider]]
"""Returns when this text, which changes these files, may be applied; raises ApprovalDeniedError if it may not."""

DISK_COMMAND = confined_program(disk_program.__file__)

MAX_ANSWER_BYTES = disk_program.MAX_READ_BYTES * 2
"""The most output of `disk_program` that is read."""


_UPDATES = (UpdateFile, ReplaceText, InsertText)
"""The changes that an editor can be asked for."""


class Patch(msgspec.Struct):
    """Changes that are being applied."""

    changes: Sequence[FileChange]
    call: CallContext
    text: str | None = None
    """The patch as the model wrote it; None: an approver is shown one that is made of the changes."""
    allowed_by: Decider | None = None

    @property
    def checks_what_was_read(self) -> bool:
        """Whether a file must be as the model read it: a patch says itself what it expects around its changes."""
        return any(isinstance(change, ReplaceText | WriteFile | InsertText) for change in self.changes)


class PatchEngine:
    """Of a session: what it knows of its conversations is which files their models have read."""

    __slots__ = ("_approve", "_check_paths", "_confined", "_editor", "read_files")

    def __init__(
        self, confined: Confined, approve: Approve, check_paths: CheckPaths, editor: EditorView | None = None
    ) -> None:
        """`editor`: the client's editor, in which files may have unsaved changes; None: only the disk counts."""
        self._confined = confined
        self._approve = approve
        self._check_paths = check_paths
        self._editor = editor
        self.read_files = ReadFiles()

    async def apply(self, patch: Patch) -> Result:
        """Apply all changes. On an error or a cancellation every file is left as it was."""
        call = patch.call
        call.publish(PatchApplyBegin(call.call_id, [described_change(change) for change in patch.changes]))
        result = Result("interrupted", success=False)
        try:
            result = await self._apply(patch)
        except TertuliaError as error:
            result = Result(error.message, success=False)
            raise
        finally:
            call.publish(PatchApplyEnd(call.call_id, result.success, result.text, patch.allowed_by))
        return result

    async def _apply(self, patch: Patch) -> Result:
        changes, call = patch.changes, patch.call
        if not changes:
            return Result("No files were modified.", success=False)
        paths = touched_paths(changes)
        self._check_paths(paths, call)
        answer = await self._on_disk({"verb": "read", "paths": paths}, call)
        files = {path: _bytes(content) for path, content in answer["files"].items()}
        if self._editor is not None:
            seen = await self._editor.look(paths, call)
            unsaved = [path for path, file in seen.items() if file.unsaved() is not None]
            if unsaved:
                return await self._in_editor(patch, unsaved[0], seen[unsaved[0]], self._editor)
        if patch.checks_what_was_read and (stale := self._stale(files, call)) is not None:
            return stale
        plan = await _planned(changes, files.get)
        text, shown = await _described(patch, plan)
        patch.allowed_by = await self._approve(text, shown, call)
        await self._write(plan, call)
        self._note(patch, plan)
        return Result(_success(plan))

    async def _in_editor(self, patch: Patch, path: str, file: EditorFile, editor: EditorView) -> Result:
        """Change a file in the editor that has unsaved changes there: a change on disk would conflict with them.

        One file at a time: an editor cannot change several files atomically.
        """
        changes, call = patch.changes, patch.call
        if touched_paths(changes) != [path] or not all(isinstance(c, _UPDATES) for c in changes):
            raise InvalidParamsError(
                f"{path} has changes in the user's editor that are not saved: it can only be updated, by a patch of "
                "its own, or ask for it to be saved; nothing was changed"
            )
        try:
            plan = await _planned(changes, {path: file.unsaved()}.get)
        except InvalidParamsError as error:
            hint = "it has changes in the user's editor that are not saved, see read_file"
            raise InvalidParamsError(f"{error.message} ({hint})") from None
        text, shown = await _described(patch, plan)
        patch.allowed_by = await editor.approve(text, path, shown, call)
        exact = [await editor.write(path, file, (change.new or b"").decode(), call) for change in plan.changes]
        self.read_files.forget_file(call.conversation_id, _absolute(path, call))
        note = "Done in the user's editor, with changes that were not saved there."
        other = "" if all(exact) else " It reads differently now, formatted perhaps: read it again."
        return Result(f"{_success(plan)}\n{note}{other}")

    def _stale(self, files: Mapping[str, bytes | None], call: CallContext) -> Result | None:
        """The refusal of the first file that is not what the model has read, with the lines that are new."""
        for path, content in files.items():
            changed = self.read_files.changed(call.conversation_id, _absolute(path, call), content)
            if changed is not None:
                return Result(f"{path} has changed since you read it; nothing was changed. {changed}", success=False)
        return None

    def _note(self, patch: Patch, plan: PatchPlan) -> None:
        """The model knows what it has written itself."""
        call, known = patch.call, patch.checks_what_was_read
        for change in plan.changes:
            self.read_files.note(call.conversation_id, _absolute(change.path, call), change.new, only_known=not known)

    async def _write(self, plan: PatchPlan, call: CallContext) -> None:
        """InvalidParams with the new lines of a file that changed since it was read: an approval can take long."""
        answer = await self._answer(plan.for_disk(), call)
        if not answer["ok"] and answer["reason"] == disk_program.CHANGED:
            path = answer["path"]
            now = await self._on_disk({"verb": "read", "paths": [path]}, call)
            before = next(change.old for change in plan.changes if change.path == path)
            new = difference(before, _bytes(now["files"][path]))
            raise InvalidParamsError(f"{path}: {disk_program.CHANGED}; nothing was changed. {new}")
        check_disk_answer(answer, "the patch")

    async def _on_disk(self, request: dict[str, Any], call: CallContext) -> dict[str, Any]:
        answer = await self._answer(request, call)
        check_disk_answer(answer, "the patch")
        return answer

    async def _answer(self, request: dict[str, Any], call: CallContext) -> dict[str, Any]:
        output = await self._confined(DISK_COMMAND, msgspec.json.encode(request), call)
        try:
            answer = msgspec.json.decode(output, type=dict[str, Any])
        except msgspec.DecodeError:
            raise SandboxError(f"the patch was not applied: {output[-500:].decode('utf-8', 'replace')!r}") from None
        return answer


class PatchTool(ChangingTool):
    """The base of a tool whose changes go the way of a patch."""

    def __init__(self, engine: PatchEngine) -> None:
        self._engine = engine


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


async def _planned(changes: Sequence[FileChange], read: Read) -> PatchPlan:
    """Plan in a thread; if the caller is cancelled, the thread stops soon after."""
    effort = WorkBudget()
    try:
        return await run_in_thread(make_plan, changes, read, effort)
    finally:
        effort.stop()


async def _described(patch: Patch, plan: PatchPlan) -> tuple[str, tuple[ApprovalFile, ...]]:
    """The patch as an approver reads it, and what it does to each file."""
    if patch.text is None:
        return await run_in_thread(patch_text, plan)
    return patch.text, approval_files(patch.changes, plan)


def _absolute(path: str, call: CallContext) -> str:
    return os.path.join(os.path.realpath(call.cwd), path)


def _bytes(encoded: str | None) -> bytes | None:
    return None if encoded is None else base64.b64decode(encoded)


def _success(plan: PatchPlan) -> str:
    order = sorted(plan.summary, key=lambda entry: "AMD".index(entry[0]))
    return "\n".join(["Success. Updated the following files:", *(f"{letter} {path}" for letter, path in order)])
