"""`shell`, `bash` and `local_shell`: the model runs a program, or a command line, and waits for its end.

`shell` is shown to a model with the arguments for an escalation, or without them (`PLAIN`). A command that is a list
is a program with its arguments, one that is a text is run by the user's shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tertulia.errors import InvalidParamsError
from tertulia.protocol.conversation_fields import ShellMode, ToolProfile
from tertulia.protocol.tool_spec import BASH, LOCAL_SHELL, ToolSpec
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
from tertulia.tools.shell.command_tool import CommandTool, ended_lines, failure_hint, user_shell
from tertulia.tools.shell.live_command import LiveCommand, without_nul
from tertulia.tools.tool import CallContext, Outcome, Properties, Result, define_tool

_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_EITHER = {**_WORDS, "type": ["array", "string"]}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "command": {
        **_WORDS,
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

_LINE_ARGUMENTS = {**_ARGUMENTS, "command": {"type": "string", "minLength": 1, "description": "The command line."}}
_LINE_DESCRIPTION = (
    "Runs a command line in the user's shell, in a sandbox, and returns its output, in the order it was written, and "
    "exit code. Each call starts a new shell in the working directory."
)
_OUTSIDE_DESCRIPTION = (
    f"As `{BASH}`, for a command line that must leave the sandbox, to reach the network or to write elsewhere: the "
    f"user decides. For everything else use `{BASH}`."
)


def _line_tool(description: str, shown: Properties, required: tuple[str, ...] = ("command",)) -> ToolSpec:
    """A command line, or a list of words from a model that knows the other form."""
    return define_tool("shell", description, shown, required, {**TOLERATED_ARGUMENTS, "command": _EITHER})


PLAIN = define_tool("shell", _DESCRIPTION, _ARGUMENTS, ["command"], TOLERATED_ARGUMENTS)
"""The definition without the arguments for an escalation. A model that sends them all the same is understood."""
WITH_REQUEST = define_tool(
    "shell", _DESCRIPTION + _ESCALATION_HINT, {**_ARGUMENTS, **ESCALATION_ARGUMENTS}, ["command"], TOLERATED_ARGUMENTS
)
LINE = _line_tool(_LINE_DESCRIPTION, _LINE_ARGUMENTS)
"""The same two for models that were trained on command lines."""
LINE_WITH_REQUEST = _line_tool(_LINE_DESCRIPTION + _ESCALATION_HINT, {**_LINE_ARGUMENTS, **ESCALATION_ARGUMENTS})
OUTSIDE = _line_tool(
    _OUTSIDE_DESCRIPTION,
    {**_LINE_ARGUMENTS, **ESCALATION_ARGUMENTS},
    ("command", *ESCALATION_ARGUMENTS),
)
"""Beside the command line of a provider, which has no arguments to ask for more."""

SHELL_FORMS: Mapping[tuple[ShellMode, ToolProfile | Literal["provider"]], ToolSpec] = {
    ("default", "patch"): PLAIN,
    ("default", "editor"): LINE,
    ("with_request", "editor"): LINE_WITH_REQUEST,
    ("with_request", "provider"): OUTSIDE,
}
"""What `shell` takes, by the mode of the shell and the form of the tools, where that is not `WITH_REQUEST`."""


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
        command = arguments["command"]
        if isinstance(command, str):
            return (user_shell(self._place.environment), "-c", command)
        return tuple(command)

    async def _run(self, request: CommandRequest, arguments: Any, call: CallContext) -> Result:
        timeout_ms, most_s = arguments.get("timeout_ms"), self._place.timeout_s
        timeout_s = most_s if timeout_ms is None else min(timeout_ms / 1000, most_s)
        return await run_command(self._place, request, timeout_s, call)


class Shell(ShellTool):
    """`shell`, with the arguments to ask for an escalation."""

    __slots__ = ()
    spec = WITH_REQUEST


_BASH_SPEC = ToolSpec.define(
    BASH,
    _LINE_DESCRIPTION,
    {"type": "object", "properties": {"command": {"type": "string", "minLength": 1}}, "required": ["command"]},
    accepts={
        "type": "object",
        "properties": {"command": {"type": ["string", "null"]}, "restart": {"type": ["boolean", "null"]}},
    },
    provider_type="bash_20250124",
)
_NOTHING_TO_RESTART = "There is nothing to restart: each call starts a new shell in the working directory."


class Bash(ShellTool):
    """`bash`, as the Messages API defines it."""

    __slots__ = ()
    spec = _BASH_SPEC

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a call without a command; a restart needs none."""
        if arguments.get("command"):
            super().check(arguments, call)
        elif not arguments.get("restart"):
            raise InvalidParamsError("command is missing: say which command line is to be run")

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Run the command line. No shell is kept from one call to the next, so a restart does nothing."""
        if not arguments.get("command"):
            return Result(_NOTHING_TO_RESTART)
        return await super().run(arguments, call)


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
