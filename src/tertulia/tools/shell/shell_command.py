"""A command that a model waits for, in whatever form of shell it was asked: allowed, run, and told as text."""

from __future__ import annotations

import os.path
from typing import Any, ClassVar

from msgspec.structs import replace

from tertulia.protocol.tool_spec import ToolSpec
from tertulia.sandbox.runner import CommandResult
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.patch.text import PatchCommand, patch_in_command
from tertulia.tools.shell.command_approval import CommandRequest, approve_command, approve_outside_sandbox, check_argv
from tertulia.tools.shell.escalation import read_escalation
from tertulia.tools.shell.live_command import LiveCommand, without_nul
from tertulia.tools.tool import CallContext, Outcome, Result, Tool


def patch_for(argv: tuple[str, ...], call: CallContext) -> PatchCommand | None:
    """The patch that this command is, if it is one and the conversation may apply patches."""
    return patch_in_command(argv) if call.rights.allows_tool("apply_patch") else None


async def apply_patch_in(directory: str, patch: PatchCommand, tool: Tool, call: CallContext) -> Outcome:
    """Run it as the patch tool would, where the script was to run."""
    return await tool.run(patch.text, replace(call, cwd=os.path.join(directory, patch.workdir or "")))


async def run_command(place: CommandEnvironment, order: CommandRequest, timeout_s: float, call: CallContext) -> Result:
    """Run it to its end, or to the deadline; after a failure, where the policy says so, once more outside."""
    cleared = await approve_command(place, order, call)
    with call.unhurried():
        live = await LiveCommand.start(place.runner, cleared.command, call, cleared.allowed_by)
        finished = await live.see_through(timeout_s)
    again = await approve_outside_sandbox(place, order, cleared.command, finished, call)
    if again is not None:
        cleared = again
        with call.unhurried():
            live = await LiveCommand.start(place.runner, cleared.command, call, cleared.allowed_by)
            finished = await live.see_through(timeout_s)
    return command_result(finished, timeout_s, place.mask_hint(cleared.command, finished))


def command_result(finished: CommandResult, timeout_s: float, hint: str | None = None) -> Result:
    """What the model reads. Anything but exit code 0 is no success, and its output is there all the same.

    `hint`: a line of ours about why it may have failed.
    """
    lines = [f"Exit code: {finished.exit_code}", f"Wall time: {finished.duration_s:.1f} seconds"]
    if finished.ended == "timeout":
        lines.append(f"The command timed out after {timeout_s:g} s and was killed with all that it had started.")
    if finished.reason is not None:
        lines.append(f"It could not be started: {finished.reason}")
    if (limit := finished.limit_text()) is not None:
        lines.append(limit)
    if (changes := finished.changes_text()) is not None:
        lines.append(changes)
    if hint is not None:
        lines.append(hint)
    if finished.output.truncated:
        lines.append(f"Total output: {finished.output.total:,} bytes; the middle is left out.")
    text = "\n".join([*lines, "Output:", without_nul(finished.output.text())])
    return Result(text, success=finished.exit_code == 0, truncated=finished.output.truncated)


class ShellCommandTool:
    """One command a call. A patch that is handed to it as if to a program is applied by the patch tool."""

    __slots__ = ("_patch", "_place")
    spec: ClassVar[ToolSpec]
    directory_argument: ClassVar[str]
    """What the form calls the directory that a command starts in."""
    parallel_safe = False
    read_only = False

    def __init__(self, place: CommandEnvironment, patch: Tool) -> None:
        self._place = place
        self._patch = patch

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what could not be started or allowed, and a patch that is none."""
        argv = tuple(arguments["command"])
        check_argv(argv)
        read_escalation(arguments)
        if (patch := patch_for(argv, call)) is not None:
            self._patch.check(patch.text, call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        argv, place = tuple(arguments["command"]), self._place
        directory = place.directory(arguments.get(self.directory_argument), call)
        if (patch := patch_for(argv, call)) is not None:
            return await apply_patch_in(directory, patch, self._patch, call)
        order = CommandRequest(argv=argv, cwd=directory, escalation=read_escalation(arguments))
        timeout_ms = arguments.get("timeout_ms")
        timeout_s = place.timeout_s if timeout_ms is None else min(timeout_ms / 1000, place.timeout_s)
        return await run_command(place, order, timeout_s, call)
