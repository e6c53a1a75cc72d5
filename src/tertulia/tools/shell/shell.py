"""`shell` and `local_shell`: the model runs a program and waits for its end.

`shell` is shown to a model with the arguments for an escalation, or without them (`PLAIN`).
"""

from __future__ import annotations

from typing import Any

from tertulia.protocol.tool_spec import LOCAL_SHELL
from tertulia.sandbox.runner import CommandResult
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.shell.command_approval import (
    ESCALATED,
    ESCALATION_ARGUMENTS,
    TOLERATED_ARGUMENTS,
    CommandRequest,
    approve_command,
    approve_outside_sandbox,
)
from tertulia.tools.shell.command_tool import CommandTool, ended_lines, failure_hint
from tertulia.tools.shell.live_command import LiveCommand, without_nul
from tertulia.tools.tool import CallContext, Result, define_tool

_ARGUMENTS = {
    "command": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": 'The program and its arguments, such as ["bash", "-c", "ls | wc -l"].',
    },
    "workdir": {"type": "string", "description": "Where it starts; the working directory if left out."},
    "timeout_ms": {"type": "integer", "minimum": 1, "description": "When to give up, in milliseconds."},
}
_DESCRIPTION = (
    "Runs a command without a shell in between and returns its output, in the order it was written, and exit code."
)
_ESCALATION_HINT = (
    " Commands run in a sandbox. One that must leave it, to reach the network or to write elsewhere, needs "
    f"`sandbox_permissions` = `{ESCALATED}` and a `justification`; the user decides."
)

PLAIN = define_tool("shell", _DESCRIPTION, _ARGUMENTS, ["command"], TOLERATED_ARGUMENTS)
"""The definition without the arguments for an escalation. A model that sends them all the same is understood."""
WITH_REQUEST = define_tool(
    "shell", _DESCRIPTION + _ESCALATION_HINT, {**_ARGUMENTS, **ESCALATION_ARGUMENTS}, ["command"], TOLERATED_ARGUMENTS
)


async def run_command(place: CommandEnvironment, order: CommandRequest, timeout_s: float, call: CallContext) -> Result:
    """Run it to its end, or to the deadline; after a failure, where the policy says so, once more outside."""
    approved = await approve_command(place, order, call)
    with call.unhurried():
        live = await LiveCommand.start(place.runner, approved.command, call, approved.allowed_by)
        finished = await live.see_through(timeout_s)
    again = await approve_outside_sandbox(place, order, approved.command, finished, call)
    if again is not None:
        approved = again
        with call.unhurried():
            live = await LiveCommand.start(place.runner, approved.command, call, approved.allowed_by)
            finished = await live.see_through(timeout_s)
    return command_result(finished, timeout_s, failure_hint(place, approved.command, finished, call))


def command_result(finished: CommandResult, timeout_s: float, hint: str | None = None) -> Result:
    """What the model reads. Anything but exit code 0 is no success, and its output is there all the same.

    `hint`: a line of ours about why it may have failed.
    """
    lines = [f"Exit code: {finished.exit_code}", f"Wall time: {finished.duration_s:.1f} seconds"]
    if finished.ended == "timeout":
        lines.append(f"The command timed out after {timeout_s:g} s and was killed with all that it had started.")
    lines += ended_lines(finished)
    if hint is not None:
        lines.append(hint)
    if finished.output.truncated:
        lines.append(f"Total output: {finished.output.total:,} bytes; the middle is left out.")
    text = "\n".join([*lines, "Output:", without_nul(finished.output.text())])
    return Result(text, success=finished.exit_code == 0, truncated=finished.output.truncated)


class ShellTool(CommandTool):
    """One command a call, which the model waits for."""

    __slots__ = ()

    def _argv(self, arguments: Any) -> tuple[str, ...]:
        return tuple(arguments["command"])

    async def _run(self, request: CommandRequest, arguments: Any, call: CallContext) -> Result:
        timeout_ms, most_s = arguments.get("timeout_ms"), self._place.timeout_s
        timeout_s = most_s if timeout_ms is None else min(timeout_ms / 1000, most_s)
        return await run_command(self._place, request, timeout_s, call)


class Shell(ShellTool):
    """`shell`, with the arguments to ask for an escalation."""

    __slots__ = ()
    spec = WITH_REQUEST


_SPEC = define_tool(
    LOCAL_SHELL,
    "Runs a command on the user's machine, in a sandbox, and returns its output and exit code.",
    {
        "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "working_directory": {"type": "string", "description": "Where it starts; the working directory if left out."},
        "timeout_ms": {"type": "integer", "minimum": 1, "description": "When to give up, in milliseconds."},
    },
    ["command"],
    {
        **TOLERATED_ARGUMENTS,
        "type": {"type": "string", "enum": ["exec"]},
        "env": {"type": ["object", "null"]},
        "user": {"type": ["string", "null"]},
    },
)


class LocalShell(ShellTool):
    """`local_shell`. What a model says about environment and user has no effect: the user decides about both."""

    __slots__ = ()
    spec = _SPEC
    directory_argument = "working_directory"
