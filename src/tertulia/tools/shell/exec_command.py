"""`exec_command` and `write_stdin`: a command that may keep running, read and typed into by later calls."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tertulia.errors import ClosedError, InvalidParamsError
from tertulia.sandbox.runner import CommandResult, TerminalSize
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.output_truncation import bound
from tertulia.tools.shell.command_approval import (
    ESCALATION_ARGUMENTS,
    TOLERATED_ARGUMENTS,
    CommandRequest,
    approve_command,
    approve_outside_sandbox,
    approve_typing,
)
from tertulia.tools.shell.command_tool import CommandTool, default_shell, ended_lines, failure_hint
from tertulia.tools.shell.live_command import LiveCommand, Terminals, without_nul
from tertulia.tools.tool import CallContext, ChangingTool, Outcome, Result, Tool, define_tool

_LONGEST_YIELD_MS = 30_000
_SHORTEST_YIELD_MS = 250
_YIELD_MS = 10_000
_OUTPUT_TOKENS = 10_000
_BYTES_A_TOKEN = 4
_CTRL_C = "\x03"

_WAITING = {
    "yield_time_ms": {
        "type": "integer",
        "description": f"How long to wait for output or the end, {_SHORTEST_YIELD_MS} to {_LONGEST_YIELD_MS} ms.",
    },
    "max_output_tokens": {"type": "integer", "minimum": 1, "description": "What is longer loses its middle."},
}

# Not a login shell unless that is asked for, though models know it as the default: profiles export what the environment
# policy keeps out, put programs first in PATH, and in a workspace that is a home they are a command's own to write.
_EXEC = define_tool(
    "exec_command",
    "Runs a command line in a shell, in a sandbox. Returns its output, and a session_id if it still runs by then: use "
    "write_stdin to look at it again or to type into it.",
    {
        "cmd": {"type": "string", "description": "The command line."},
        "workdir": {"type": "string", "description": "Where it starts; the working directory if left out."},
        "tty": {"type": "boolean", "description": "Give it a terminal, to be typed into. Default false."},
        **_WAITING,
        "shell": {"type": "string", "description": "The shell; bash if there is one."},
        "login": {"type": "boolean", "description": "As a login shell, which reads profiles. Default false."},
        **ESCALATION_ARGUMENTS,
    },
    ["cmd"],
    TOLERATED_ARGUMENTS,
)

_WRITE = define_tool(
    "write_stdin",
    "Types into a command that exec_command left running, and returns what it has written since. Without chars it "
    "only looks. \\u0003 (Ctrl-C) interrupts it, and ends one without a tty.",
    {
        "session_id": {"type": "integer", "description": "As exec_command gave it."},
        "chars": {"type": "string", "description": "What to type; nothing to look."},
        **_WAITING,
    },
    ["session_id"],
)


class ExecCommand(CommandTool):
    """Starts a command and returns at its end, or earlier."""

    __slots__ = ("_terminals",)
    spec = _EXEC

    def __init__(self, place: CommandEnvironment, terminals: Terminals, patch: Tool) -> None:
        super().__init__(place, patch)
        self._terminals = terminals

    def _argv(self, arguments: Any) -> tuple[str, ...]:
        shell = arguments.get("shell") or default_shell()
        return (shell, "-lc" if arguments.get("login") else "-c", arguments["cmd"])

    async def _run(self, request: CommandRequest, arguments: Any, call: CallContext) -> Result:
        """Start it and wait a little."""
        self._terminals.check_room(call.conversation_id)
        place, wait_s = self._place, _wait_s(arguments)
        order = replace(request, terminal=TerminalSize() if arguments.get("tty") else None)
        approved = await approve_command(place, order, call)
        with call.unhurried():
            live = await LiveCommand.start(place.runner, approved.command, call, approved.allowed_by)
            finished = await live.look(wait_s)
        again = (
            None if finished is None else await approve_outside_sandbox(place, order, approved.command, finished, call)
        )
        if again is not None:
            with call.unhurried():
                live = await LiveCommand.start(place.runner, again.command, call, again.allowed_by)
                finished = await live.look(wait_s)
        number = None
        if finished is None:
            number = self._terminals.keep(call.conversation_id, live)
            live.listen(None)
        hint = None if finished is None else failure_hint(place, live.command, finished, call)
        return _result(live, finished, number, arguments, call, hint)


class WriteStdin(ChangingTool):
    """`write_stdin`: types into a running command, and reads its output."""

    __slots__ = ("_place", "_terminals")
    spec = _WRITE

    def __init__(self, place: CommandEnvironment, terminals: Terminals) -> None:
        self._place = place
        self._terminals = terminals

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a number that no command of this conversation has."""
        self._terminals.find(call.conversation_id, arguments["session_id"])

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Type, wait a little, and return the new output."""
        # A number like 1.0 is one that JSON takes for whole.
        number, chars = int(arguments["session_id"]), arguments.get("chars") or ""
        live = self._terminals.find(call.conversation_id, number)
        live.listen(call.publish)
        try:
            with call.unhurried():
                await self._type(live, chars, call)
                finished = await live.look(_wait_s(arguments))
        finally:
            live.listen(None)
            if live.running.finished is not None:
                self._terminals.drop(call.conversation_id, number)
        hint = None if finished is None else failure_hint(self._place, live.command, finished, call)
        return _result(live, finished, number, arguments, call, hint)

    async def _type(self, live: LiveCommand, chars: str, call: CallContext) -> None:
        if not chars or live.running.finished is not None:
            return
        has_terminal = live.command.terminal is not None
        if chars == _CTRL_C and not has_terminal:
            await live.kill()
            return
        if not has_terminal:
            raise InvalidParamsError("this command has no terminal to type into; start it with tty = true")
        if chars != _CTRL_C:
            await approve_typing(self._place, live.command, chars, call)
        try:
            await live.running.write(chars.encode())
        except ClosedError:
            # It has ended meanwhile, which is what the answer will say.
            return


def _wait_s(arguments: Any) -> float:
    yield_ms = arguments.get("yield_time_ms")
    yield_ms = _YIELD_MS if yield_ms is None else yield_ms
    return min(max(yield_ms, _SHORTEST_YIELD_MS), _LONGEST_YIELD_MS) / 1000


def _result(
    live: LiveCommand,
    finished: CommandResult | None,
    number: int | None,
    arguments: Any,
    call: CallContext,
    hint: str | None,
) -> Result:
    room = (arguments.get("max_output_tokens") or _OUTPUT_TOKENS) * _BYTES_A_TOKEN
    output = live.running.take()
    text = bound(without_nul(output.text()), room)
    lasted = call.clock.monotonic() - live.began_at if finished is None else finished.duration_s
    lines = [f"Wall time: {lasted:.1f} seconds"]
    if finished is None:
        lines.append(f"Process running with session ID {number}")
    else:
        lines.append(f"Process exited with code {finished.exit_code}")
        lines += ended_lines(finished)
    lines += [] if hint is None else [hint]
    truncated = output.truncated or text.truncated
    if truncated:
        lines.append(f"Original token count: {output.total // _BYTES_A_TOKEN}")
    success = finished is None or finished.exit_code == 0
    return Result("\n".join([*lines, "Output:", text.text]), success=success, truncated=truncated)
