"""Why a run failed, in one sentence for people: the agent's own message, how it ended, and what can be done."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tertulia.errors import TertuliaError
from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.executor import RunFailed, Step
from tertulia.executors.result_text import clip
from tertulia.protocol.name_hints import arguments_hint
from tertulia.sandbox.runner import CommandResult

_TAIL_BYTES = 16_384
_LINES = 5
_CHARACTERS = 1_000
_NOT_FOUND = 127
_LOGGED_OUT = re.compile(
    r"not logged in|\blog ?in\b|\b401\b|unauthorized|invalid (?:x-)?api.key|missing.*api.key", re.IGNORECASE
)
_UNKNOWN_WORD = re.compile(
    r"unexpected argument|unknown option|unrecognized|no such option|unknown command|profile \S{1,80} not found",
    re.IGNORECASE,
)
# Terminal control sequences (colours, window titles) and characters that change the writing direction.
_CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069]"
)


class ErrorOutput:
    """The end of an agent's standard error. All of it is read, so that the agent is never blocked."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = bytearray()

    def hear(self, data: bytes) -> None:
        """Add a chunk of standard error."""
        self._tail += data
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]

    def last_lines(self) -> str:
        """The last lines, joined to one."""
        text = _CONTROL.sub("", self._tail[-_TAIL_BYTES:].decode("utf-8", "replace"))
        lines = [line.strip() for line in text.splitlines()]
        return clip(" / ".join([line for line in lines if line][-_LINES:]), _CHARACTERS)


def not_started_reason(name: str, definition: ExecutorDefinition, finished: CommandResult) -> str | None:
    """Why the program never ran; None where it did."""
    if finished.reason is None:
        return None
    program = definition.command[0]
    if finished.exit_code != _NOT_FOUND:
        return f"{name} cannot be started: `{program}`: {finished.reason}"
    install = f"; install it with `{definition.install}`" if definition.install else ""
    return f"{name} is not installed: there is no `{program}` in PATH{arguments_hint(program) or install}"


def failure_sentence(
    name: str, definition: ExecutorDefinition, message: str, finished: CommandResult, tail: str
) -> str:
    """The sentence. `message` is the agent's own error message, if it had one; `tail` what it has printed last."""
    if message:
        sentence = message
    elif finished.exit_code:
        sentence = f"{name} exited with code {finished.exit_code}" + (f": {tail}" if tail else " and said nothing")
    else:
        sentence = f"the output of {name} ended before it said how the task did" + (f": {tail}" if tail else "")
    return sentence + failure_advice(definition, f"{message}\n{tail}")


def failure_advice(definition: ExecutorDefinition, message: str) -> str:
    """What can be done about the agent's error, in brackets; empty where no advice is known."""
    if _UNKNOWN_WORD.search(message):
        newest = f"; the newest comes with `{definition.install}`" if definition.install else ""
        return f" (this version of `{definition.command[0]}` may not fit{newest})"
    if _LOGGED_OUT.search(message) and definition.login:
        return f" (log in with `{definition.login}`)"
    return ""


async def failures_as_steps(name: str, steps: AsyncGenerator[Step, None]) -> AsyncGenerator[Step, None]:
    """The steps of a run; where an error ends them, it becomes the last step."""
    try:
        async with aclosing(steps):
            async for step in steps:
                yield step
    except TertuliaError as error:
        yield RunFailed(error.message, error.code)
    except OSError as error:
        # No room on the disk for a temporary home, or no free file descriptor.
        yield RunFailed(f"{name} cannot be started: {error.strerror}")
