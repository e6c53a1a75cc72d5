"""What the tools that run commands share: the check of a call, patches handed to a shell, the lines about an end."""

from __future__ import annotations

import os.path
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from tertulia.policy.commands.command_analysis import SHELLS
from tertulia.policy.display_text import visible
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.sandbox.runner import Command, CommandResult
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.patch.text import PatchCommand, patch_in_command
from tertulia.tools.shell.command_approval import (
    CommandRequest,
    check_argv,
    read_escalation,
)
from tertulia.tools.shell.git_command import protected_git_hint
from tertulia.tools.tool import CallContext, ChangingTool, Outcome, Result, Tool

_MOST_REFUSALS = 8
_SHELLS = ("/bin/bash", "/bin/sh")


def user_shell(environment: Mapping[str, str]) -> str:
    """The shell that runs command lines: that of the user, if its scripts can be read before they run, else bash."""
    named = environment.get("SHELL", "")
    known = named in SHELLS and os.path.isabs(named) and os.path.exists(named)
    return named if known else default_shell()


def default_shell() -> str:
    """Bash where there is one."""
    return next((path for path in _SHELLS if os.path.exists(path)), _SHELLS[-1])


def ended_lines(finished: CommandResult) -> list[str]:
    """What a model is told of an ended command besides its exit code and output."""
    started = None if finished.reason is None else f"It could not be started: {finished.reason}"
    return [line for line in (started, finished.limit_text(), finished.changes_text()) if line is not None]


def failure_hint(place: CommandEnvironment, command: Command, finished: CommandResult, call: CallContext) -> str | None:
    """Lines about why a command may have failed, and how to go on; None where nothing is known."""
    hints = (
        place.mask_hint(command, finished),
        protected_git_hint(command, finished, call.rights),
        _network_hint(command),
    )
    return "\n".join(hint for hint in hints if hint is not None) or None


def _network_hint(command: Command) -> str | None:
    """Which hosts were refused: a program hides the sentence that the proxy answers."""
    refusals = [] if command.gate is None else list(command.gate.refusals)[:_MOST_REFUSALS]
    return f"Network: {'; '.join(map(visible, refusals))}." if refusals else None


class CommandTool(ChangingTool, ABC):
    """A tool that runs a command. A patch that is handed to it as if to a program is applied by the patch tool."""

    __slots__ = ("_patch", "_place")
    spec: ClassVar[ToolSpec]
    directory_argument: ClassVar[str] = "workdir"
    """The argument with the directory that a command starts in."""

    def __init__(self, place: CommandEnvironment, patch: Tool) -> None:
        self._place = place
        self._patch = patch

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what could not be started or allowed, and a patch that cannot be read."""
        argv = self._argv(arguments)
        check_argv(argv)
        read_escalation(arguments)
        if (patch := _patch_in(argv, call)) is not None:
            self._patch.check(patch.text, call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Run the command; if it is a patch, apply that."""
        argv = self._argv(arguments)
        directory = self._place.directory(arguments.get(self.directory_argument), call)
        if (patch := _patch_in(argv, call)) is not None:
            # Applied by the patch tool, in the directory of the script.
            there = replace(call, cwd=os.path.join(directory, patch.workdir or ""))
            return await self._patch.run(patch.text, there)
        request = CommandRequest(argv=argv, cwd=directory, escalation=read_escalation(arguments))
        return await self._run(request, arguments, call)

    @abstractmethod
    def _argv(self, arguments: Any) -> tuple[str, ...]:
        """The program and its arguments."""

    @abstractmethod
    async def _run(self, request: CommandRequest, arguments: Any, call: CallContext) -> Result:
        """Get its approval, and run it."""


def _patch_in(argv: tuple[str, ...], call: CallContext) -> PatchCommand | None:
    """The patch that this command is, if it is one and the conversation may apply patches."""
    return patch_in_command(argv) if call.rights.allows_tool("apply_patch") else None
