"""Tools that run commands, with a real sandbox, an approval queue, and an approver who may answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.policy.approval_policy import approval_from_wire
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.rights import TOP, Rights
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import ToolCall
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, Mask
from tertulia.sandbox.runner import CommandRunner
from tertulia.sandbox.sandbox import Sandbox
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.dispatch import Dispatch, check_call
from tertulia.tools.files.members import make_file_tool
from tertulia.tools.files.specs import FILE_SPECS
from tertulia.tools.patch.apply_patch import ApplyPatch
from tertulia.tools.patch.engine import MAX_ANSWER_BYTES, PatchEngine
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.shell.exec_command import ExecCommand, WriteStdin
from tertulia.tools.shell.live_command import Terminals
from tertulia.tools.shell.shell import Bash, LocalShell, Shell
from tertulia.tools.tool import CallContext, Result
from tertulia.tools.view_image import ViewImage
from tests.deadlines import HANG_S
from tests.sandbox.confined import need
from tests.tools.calling import call

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
Answer = Callable[[ApprovalRequest], dict[str, Any] | None]
"""What somebody says to a request; None: nothing."""


def allow(request: ApprovalRequest) -> dict[str, Any]:
    return {"decision": "allow"}


def deny(request: ApprovalRequest) -> dict[str, Any]:
    return {"decision": "deny", "message": "not today"}


class Workbench:
    """One conversation's tools, a workspace, and a directory outside of it."""

    def __init__(self, folder: Path, runner: CommandRunner, answer: Answer | None, guarded: GuardedPaths) -> None:
        folder = Path(os.path.realpath(folder))
        self.root, self.outside = folder / "workspace", folder / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        self.answer = answer
        self.events: list[EventData] = []
        self._news = asyncio.Event()
        self.asked: list[ApprovalRequest] = []
        self.told: list[tuple[str, EventData]] = []
        self.rights = self.with_rights("on-request")
        self.approvals = ApprovalQueue(SystemClock(), timeout_s=HANG_S)
        self.place = CommandEnvironment(
            runner=runner,
            approvals=self.approvals,
            root=str(self.root),
            guarded=guarded,
            environment=ENVIRONMENT,
            environment_policy="as in the test",
            timeout_s=HANG_S,
        )
        self.terminals = Terminals(lambda conversation, data: self.told.append((conversation, data)))
        place = self.place
        engine = PatchEngine(
            lambda argv, stdin, call: place.confined(argv, stdin, MAX_ANSWER_BYTES, call),
            place.approve_patch,
            place.check_changeable,
        )
        patch = ApplyPatch(engine)
        self.registry = ToolRegistry(
            [
                Shell(place, patch),
                LocalShell(place, patch),
                ExecCommand(place, self.terminals, patch),
                WriteStdin(place, self.terminals),
                patch,
                *(make_file_tool(spec.name, place, engine, None) for spec in FILE_SPECS),
                Bash(place, patch),
                ViewImage(place),
            ]
        )

    def with_rights(self, approval: object, **rights: Any) -> Rights:
        """From now on; inside the workspace unless said otherwise."""
        fields = {"sandbox": "workspace_write", "network": False, "allow_git": False, **rights}
        self.rights = replace(TOP, approval_policy=approval_from_wire(approval), **fields)
        return self.rights

    def publish(self, event: EventData) -> None:
        self.events.append(event)
        self._news.set()
        if isinstance(event, ApprovalRequest):
            self.asked.append(event)
            answer = self.answer(event) if self.answer is not None else None
            if answer is not None:
                asyncio.get_running_loop().call_soon(lambda: self.approvals.resolve(event.approval_id, **answer))

    def context(self, call: ToolCall, conversation: str = "conversation") -> CallContext:
        return CallContext(
            conversation_id=ConversationId(conversation),
            task_id=TaskId("task"),
            call_id=call.call_id,
            cwd=str(self.root),
            rights=self.rights,
            publish=self.publish,
            clock=SystemClock(),
        )

    async def call(
        self, name: str, arguments: Any, *, conversation: str = "conversation", timeout_s: float = HANG_S
    ) -> Result:
        """What the model reads."""
        made = call(name, arguments, kind="custom" if isinstance(arguments, str) else "function")
        names = {spec.name for spec in self.registry.specs()}
        checked = check_call(made, self.registry, names, lambda call: self.context(call, conversation))
        dispatch = Dispatch(
            [checked], lambda call: self.context(call, conversation), began=str, ended=str, timeout_s=timeout_s
        )
        await dispatch.run()
        return dispatch.outputs[0].result

    async def shell(self, *command: str, **more: Any) -> Result:
        return await self.call("shell", {"command": list(command), **more})

    async def until(self, kind: str) -> None:
        """Something of this type has been told."""
        async with asyncio.timeout(HANG_S):
            while not any(event.type == kind for event in self.events):
                self._news.clear()
                await self._news.wait()

    def kinds(self) -> list[str]:
        """The types of what was told, deltas left out."""
        return [event.type for event in self.events if event.durable]


def code(result: Result) -> str:
    """Of a refusal."""
    assert not result.success
    return msgspec.json.decode(result.text)["code"]


@asynccontextmanager
async def workbench(
    folder: Path,
    answer: Answer | None = None,
    *,
    masked: tuple[str, ...] = (),
    guarded: GuardedPaths | None = None,
    runner: CommandRunner | None = None,
) -> AsyncIterator[Workbench]:
    """With somebody there who answers, or with nobody. Nothing is left running."""
    if runner is None:
        need("bubblewrap")
    runner = runner or Sandbox(clock=SystemClock())
    guarded = guarded or GuardedPaths(tuple(Mask(path, path, "a secret of the test") for path in masked))
    bench = Workbench(folder, runner, answer, guarded)
    try:
        with bench.approvals.attended() if answer is not None else nullcontext():
            yield bench
    finally:
        await bench.terminals.close()
        await runner.close()
