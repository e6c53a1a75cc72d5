"""Asks one hook: starts its program or calls its function, bounded in time and output, and parses the answer.

It decides nothing: what a failure means depends on the moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.events.clock import Clock
from tertulia.policy.display_text import visible
from tertulia.policy.hook_answer import HookAnswer, parse_hook_answer
from tertulia.protocol.tool_events import HookMoment
from tertulia.sandbox.runner import Command, CommandResult, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.hooks.hook_table import HookDefinition
from tertulia.tools.threads import call_cancellable

MAX_ANSWER_BYTES = 64 * 1024
"""Of what a program prints; a hook that prints more has failed."""
_MOST_SHOWN = 200


class HookError(Exception):
    """A hook gave no answer that can be used; the text says why, for the user."""


Start = Callable[[Coroutine[Any, Any, Any], str], "asyncio.Task[Any]"]
"""Starts a coroutine in a task of its own; see `scheduler/nursery.py`."""


class HookRunner:
    """Starts programs and calls functions for the hooks of one session."""

    def __init__(self, clock: Clock, start: Start, variables: Mapping[str, str], home: str) -> None:
        """`variables`: what programs get; `home`: where those of the user are started."""
        self._start = start
        self._variables = variables
        self._home = home
        # Of its own: that of the session ends before the last task has ended.
        self._sandbox = Sandbox(clock=clock)

    async def ask(self, hook: HookDefinition, moment: HookMoment, question: Mapping[str, Any]) -> HookAnswer:
        """The answer of the hook, or a HookError. Whatever it started has ended by then, but for a thread."""
        try:
            encoded = msgspec.json.encode(question)
        except (TypeError, ValueError, RecursionError):
            raise HookError("cannot be asked: the question is not JSON") from None
        if hook.function is not None:
            answer = await self._call(hook, encoded)
        else:
            answer = _decode(await self._run(hook, encoded))
        try:
            return parse_hook_answer(answer, moment)
        except InvalidParamsError as error:
            raise HookError(error.message) from None

    async def close(self) -> None:
        """End the programs that still run."""
        await self._sandbox.close()

    async def _call(self, hook: HookDefinition, question: bytes) -> object:
        assert hook.function is not None, "it is a function"
        # Read again from the JSON: what a function does to its argument must not change what runs.
        argument = msgspec.json.decode(question)
        # A task of its own, so that its outcome can be examined in every case.
        call = self._start(call_cancellable(hook.function, argument), f"hook {hook.name}")
        try:
            await asyncio.wait([call], timeout=hook.timeout_s)
        finally:
            done = call.done()
            call.cancel()
        if not done:
            raise HookError(f"took longer than {hook.timeout_s:g} s")
        if call.cancelled():
            raise HookError("was cancelled from inside")
        if (error := call.exception()) is not None:
            raise HookError(f"failed: {type(error).__name__}")
        return _as_json(call.result())

    async def _run(self, hook: HookDefinition, question: bytes) -> bytes:
        errors = bytearray()
        command = Command(
            argv=hook.command,
            # Not in the workspace: what lies there could take the place of what the program loads.
            cwd=hook.folder or self._home,
            confinement=Confinement(mode="danger_full_access"),
            environment=self._variables,
            stdin=question + b"\n",
            # Half is kept from the beginning: all of what may be read is.
            kept_output_bytes=2 * MAX_ANSWER_BYTES,
        )
        try:
            running = await self._sandbox.start(command, on_error=lambda text: _keep(errors, text))
        except TertuliaError as error:
            raise HookError(f"cannot be started: {error.message}") from None
        try:
            finished = await running.wait(hook.timeout_s)
        finally:
            if running.finished is None:
                await running.kill()
        if finished is None:
            raise HookError(f"took longer than {hook.timeout_s:g} s and was ended")
        return _output(finished, errors)


def _keep(errors: bytearray, text: bytes) -> None:
    errors += text
    del errors[:-4096]


def _output(finished: CommandResult, errors: bytearray) -> bytes:
    if finished.ended == "not_started" or finished.reason is not None:
        raise HookError(f"could not be started: {finished.reason}")
    if finished.exit_code != 0:
        lines = visible(errors.decode("utf-8", "replace"), lines=True).strip().splitlines()
        last = f": {lines[-1][:_MOST_SHOWN]}" if lines else ""
        raise HookError(f"ended with {finished.exit_code}{last}")
    if finished.output.total > MAX_ANSWER_BYTES:
        raise HookError(f"printed {finished.output.total:,} bytes, and {MAX_ANSWER_BYTES:,} are the most")
    return finished.output.head


def _as_json(answer: object) -> object:
    """The answer of a function as a program would have printed it: plain data."""
    try:
        encoded = msgspec.json.encode(answer)
    except (TypeError, ValueError, RecursionError):
        raise HookError(f"returned a {type(answer).__name__} that is not JSON") from None
    if len(encoded) > MAX_ANSWER_BYTES:
        raise HookError(f"returned {len(encoded):,} bytes, and {MAX_ANSWER_BYTES:,} are the most")
    return msgspec.json.decode(encoded)


def _decode(output: bytes) -> object:
    if not output.strip():
        return None
    try:
        return msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HookError("printed something that is not one JSON object") from None
