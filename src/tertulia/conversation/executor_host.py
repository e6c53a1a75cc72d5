"""What the session does for an executor's agent, with the same rules as for the native backend.

Files are read and written, and commands run, in the sandbox of the strictest rights of the chain; what has to be
approved goes to the session's approvals.
"""

from __future__ import annotations

import base64
import hashlib
import os.path
from collections.abc import Mapping
from typing import Any

from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError
from tertulia.executors.executor import PermissionAnswer, PermissionQuestion
from tertulia.executors.step_events import item_of
from tertulia.policy.approvals.approval_request import (
    ApprovalKind,
    ApprovalParts,
    RequestedAction,
    as_one_line,
    command_text,
    with_label,
)
from tertulia.policy.commands.command_analysis import analyse_command, only_reads_in
from tertulia.policy.commands.named_files import WORDS_ALONE, NamedFiles
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.tool_events import ApprovalFile, Decider
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.sandbox.mounts.nested_protected import protected_part
from tertulia.sandbox.runner import Confinement, OnOutput, RunningCommand
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.patch.plan import count_lines
from tertulia.tools.shell.command_approval import CommandRequest, approve_command, check_argv
from tertulia.tools.tool import CallContext

_READING_KINDS = ("read", "search", "think")
_WRITING_KINDS = ("edit", "delete", "move")


class TaskExecutorHost:
    """Implements `Host` for one run. `backend`: the agent's name; `run`: the id under which its calls are published."""

    def __init__(self, scope: TaskScope, place: CommandEnvironment, backend: str, run: str) -> None:
        self._scope = scope
        self._place = place
        self._backend = backend
        self._run = run
        self._deciders: dict[str, Decider] = {}

    async def permit(self, question: PermissionQuestion) -> PermissionAnswer:
        """Decide whether it may act: by the policy of the chain, or by asking a person."""
        scope, place = self._scope, self._place
        rights, cwd = scope.rights(), place.directory(None, self._call(scope.conversation.terms.cwd))
        confinement = place.confinement(rights, scope.conversation.terms.worktree)
        kind = approval_kind(question, confinement, cwd)
        subject = place.subject(question.words, cwd, confinement, outside=kind == "escalation")
        request = RequestedAction(
            kind=kind,
            conversation_id=scope.conversation.id,
            chain=scope.chain().callers,
            call_id=None if question.call is None else CallId(item_of(self._run, question.call)),
            title=f"{self._backend}: {question.title}",
            detail=self._detail(question, cwd),
            subject=subject,
            parts=ApprovalParts(
                command=question.words if question.doing == "execute" else (), cwd=cwd, sandbox=subject.sandbox
            ),
            # The agent starts it itself, in an environment of its own and whenever it likes.
            named=NamedFiles(known=False) if question.doing == "execute" else WORDS_ALONE,
        )
        looks = question.doing in _READING_KINDS and kind == "tool"
        # Without roots: the agent runs it in an environment of its own, which may have git start anything.
        safe = looks or (kind == "exec" and only_reads_in(analyse_command(question.words), cwd, ()))
        try:
            await self._check_step(
                question.doing,
                {"title": question.title, "words": list(question.words), "paths": list(question.paths)},
                self._call(cwd, question.call),
            )
            granted = await place.approvals.ask(request, rights.approval_policy, scope.publish, known_safe=safe)
        except TertuliaError:
            return PermissionAnswer(allowed=False)
        if question.call is not None:
            self._deciders[question.call] = granted.decider
        return PermissionAnswer(allowed=True, lasting=granted.scope not in (None, "once"))

    async def read(self, path: str) -> str:
        """Read a file as a command would see it."""
        call, name = self._at(path)
        self._place.check_readable(os.path.join(call.cwd, name), call)
        content = await self._content(call, name)
        if content is None:
            raise NotFoundError(f"there is no file {path!r:.200}")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise InvalidParamsError(f"{path!r:.200} is not a text in UTF-8") from None

    async def write(self, path: str, text: str, call: str) -> None:
        """Write a file as a patch would."""
        context, name = self._at(path, call)
        if context.rights.sandbox != "danger_full_access" and (part := protected_part(name)) is not None:
            raise InvalidParamsError(f"{path!r:.200} lies in or is '{part}', which is protected from changes")
        self._place.check_changeable([name], context)
        await self._check_step("write", {"path": path, "text": text}, context)
        old = await self._content(context, name)
        file = ApprovalFile(
            path, "add" if old is None else "update", count_lines(text.encode("utf-8", "replace")), count_lines(old)
        )
        question = f"*** Write File: {path}\n{text}"
        self._deciders[call] = await self._place.approve_patch(question, (file,), context)
        change = {
            "path": name,
            "old": None if old is None else hashlib.sha256(old).hexdigest(),
            "new": base64.b64encode(text.encode("utf-8", "replace")).decode(),
            "like": None,
        }
        await self._on_disk({"verb": "apply", "changes": [change]}, context)

    async def start(
        self, argv: tuple[str, ...], cwd: str | None, variables: Mapping[str, str], on_output: OnOutput, call: str
    ) -> RunningCommand:
        """Start a command as the shell tool would."""
        # As words of the command: what is asked about, and what counts as harmless, must know of them.
        words = ("env", *(f"{name}={value}" for name, value in variables.items()), *argv) if variables else argv
        check_argv(words)
        context = self._call(self._scope.conversation.terms.cwd, call)
        order = CommandRequest(argv=words, cwd=self._place.directory(cwd, context))
        await self._check_step("execute", {"words": list(words), "cwd": order.cwd}, context)
        approved = await approve_command(self._place, order, context)
        self._deciders[call] = approved.allowed_by
        return await self._place.runner.start(approved.command, on_output)

    def allowed_by(self, call: str) -> Decider | None:
        """Who or what has allowed that step of the agent."""
        return self._deciders.get(call)

    async def _check_step(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> None:
        hooks = self._scope.around.hooks
        if hooks is not None:
            await hooks.check_step(name, arguments, context)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _detail(self, question: PermissionQuestion, cwd: str) -> str:
        """What the agent says that it will do, all of it."""
        if question.doing != "execute":
            return with_label(f"{question.doing}, in the words of {self._backend}", question.detail)
        whole = f"{command_text(question.words)}\nin {as_one_line(cwd)}, if {self._backend} names no other directory"
        return (
            f"{whole}\n{with_label(f'What else {self._backend} says', question.detail)}" if question.detail else whole
        )

    def _call(self, cwd: str, call: str | None = None) -> CallContext:
        """`call`: the step of the agent that it is made in; None: no event tells of it."""
        scope = self._scope
        return CallContext(
            conversation_id=scope.conversation.id,
            task_id=scope.task_id,
            call_id=CallId(new_item_id() if call is None else item_of(self._run, call)),
            cwd=cwd,
            rights=scope.rights(),
            publish=scope.publish,
            clock=scope.around.clock,
            chain=scope.chain(),
            worktree=scope.conversation.terms.worktree,
        )

    def _at(self, path: str, call: str | None = None) -> tuple[CallContext, str]:
        """(a call in the nearest existing directory, the rest of the path)."""
        if "\0" in path or not os.path.isabs(path):
            raise InvalidParamsError(f"{path!r:.200} must be an absolute path")
        folder, name = os.path.split(os.path.normpath(path))
        while not os.path.isdir(folder):
            folder, above = os.path.split(folder)
            name = os.path.join(above, name)
        return self._call(os.path.realpath(folder), call), name

    async def _content(self, call: CallContext, name: str) -> bytes | None:
        answer = await self._on_disk({"verb": "read", "paths": [name]}, call)
        encoded: str | None = answer["files"][name]
        return None if encoded is None else base64.b64decode(encoded)

    async def _on_disk(self, request: dict[str, Any], call: CallContext) -> dict[str, Any]:
        answer = await self._place.on_disk(request, call, "it was not done")
        if not answer["ok"]:
            raise InvalidParamsError(f"{answer['path']}: {answer['reason']}")
        return answer


def approval_kind(question: PermissionQuestion, confinement: Confinement, cwd: str) -> ApprovalKind:
    """The kind of approval that a request needs.

    The agent's sandbox is its own, and what it asks for may lie outside of it: that is no command in a sandbox, but
    one that leaves it. A change of files within what may be written is a patch like any other. What is masked from our
    own commands is outside of every sandbox, also to look at.
    """
    unbounded = confinement.mode == "danger_full_access"
    if question.doing in _READING_KINDS and (unbounded or not _meets(question.paths, confinement.masked, cwd)):
        return "tool"
    if question.doing in _WRITING_KINDS and (unbounded or _within(question.paths, confinement, cwd)):
        return "patch"
    if question.doing == "execute" and unbounded:
        return "exec"
    return "tool" if unbounded else "escalation"


def _within(paths: tuple[str, ...], confinement: Confinement, cwd: str) -> bool:
    if confinement.mode != "workspace_write" or not paths or any("\0" in path for path in paths):
        return False
    if _meets(paths, (*confinement.masked, *confinement.protected_paths), cwd):
        return False
    return all(_is_writable(os.path.realpath(os.path.join(cwd, path)), confinement) for path in paths)


def _meets(paths: tuple[str, ...], guarded: tuple[str, ...], cwd: str) -> bool:
    """Whether one of the paths lies in one of these places, or has one inside; by their names, or where links lead."""
    places = {place for path in guarded for place in (path, os.path.realpath(path))}
    named = [os.path.normpath(os.path.join(cwd, path)) for path in paths if "\0" not in path]
    spelled = {spelling for path in named for spelling in (path, os.path.realpath(path))}
    return any(is_inside(path, place) or is_inside(place, path) for path in spelled for place in places)


def _is_writable(path: str, confinement: Confinement) -> bool:
    inside = [os.path.relpath(path, root) for root in confinement.writable_roots]
    return any(relative.split("/")[0] != ".." and protected_part(relative) is None for relative in inside)
