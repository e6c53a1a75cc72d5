"""From the calls of one answer to their outputs: check them all, then run those that passed.

The only module of this stage that catches everything: whatever a tool does, the model gets an output and the
task goes on. It publishes nothing and records nothing; the caller of `Dispatch` does both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Container, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from time import thread_time
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import InternalError, InvalidParamsError, LimitError, TertuliaError
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import ToolCall
from tertulia.protocol.tool_spec import canonical_name
from tertulia.schema.check import is_object
from tertulia.tools.output_truncation import bound, bound_output, validate_outcome
from tertulia.tools.registry import ToolLookup
from tertulia.tools.threads import abandoned_threads
from tertulia.tools.tool import CallContext, CallHooks, Handoff, Outcome, Result, TargetResult, Tool

TOOL_TIMEOUT_S = 300.0
MAX_CALLS = 128
"""Of one answer; checking them all must not take seconds, whatever the schemas."""
MAX_ARGUMENTS = 1024 * 1024
"""Characters of one call's arguments."""
MAX_BRACKETS = 100_000
"""In one call's arguments. Those inside texts count as well, but no text has so many; decoding a million empty
lists takes longer than all the rest."""
MAX_PARALLEL = 16
"""Calls that run at once."""
_MAX_REASON_BYTES = 2_000
_STEP_S = 0.02
"""Of the processor: after so long the loop gets a turn, between two calls. One call alone takes less than 100 ms."""

_TOO_MANY = LimitError(f"an answer may have {MAX_CALLS} calls; make this one in the next")

ContextFor = Callable[[ToolCall], CallContext]


class CheckedCall(msgspec.Struct, frozen=True):
    """A call that may run, or the refusal that answers it."""

    call: ToolCall
    tool: Tool | None
    arguments: Any
    refusal: Result | None


class CompletedCall(msgspec.Struct, frozen=True):
    """The one end of a call."""

    call: ToolCall
    result: Result
    truncated: bool
    duration_ms: int


class CallProgress:
    """How far one call has come; true at any moment, also after a cancellation."""

    __slots__ = ("begun", "checked", "outcome")

    def __init__(self, checked: CheckedCall) -> None:
        self.checked = checked
        self.begun = False
        self.outcome: CompletedCall | Handoff | None = None
        """None until it has ended; it stays None where it was cancelled."""


class _LoopTurns:
    """Yields to the loop between calls, so that many calls of one answer are many short steps."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = thread_time()

    async def give(self) -> None:
        """Let others run, if this step has taken long."""
        if thread_time() - self._since > _STEP_S:
            await asyncio.sleep(0)
            self._since = thread_time()


# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────────


async def check_calls(
    calls: Sequence[ToolCall], tools: ToolLookup, offered: Container[str], context_for: ContextFor
) -> tuple[list[CheckedCall], list[ToolCall]]:
    """Check all calls of an answer, with no side effect: (those to run or refuse, in order; those to drop).

    Dropped is a call whose id was used before in the same answer: two outputs of one id could not be told apart.
    """
    turns = _LoopTurns()
    used: set[CallId] = set()
    checked: list[CheckedCall] = []
    dropped: list[ToolCall] = []
    for call in calls:
        if call.call_id in used:
            dropped.append(call)
            continue
        used.add(call.call_id)
        await turns.give()
        if len(checked) < MAX_CALLS:
            checked.append(check_call(call, tools, offered, context_for))
        else:
            checked.append(CheckedCall(call, None, None, refusal(_TOO_MANY)))
    return checked, dropped


def check_call(call: ToolCall, tools: ToolLookup, offered: Container[str], context_for: ContextFor) -> CheckedCall:
    """Check one call, with no side effect."""
    tool = tools.get(call.name)
    try:
        if tool is None or canonical_name(call.name) not in offered or tool.spec.kind == "hosted":
            raise tools.absence(call.name)
        arguments, added = _read_arguments(call, tool, tools)
        tool.check(arguments, context_for(call))
        if added:
            # Events and records have the call as it runs. The model's own words stay in its answer.
            call = replace(call, arguments=msgspec.json.encode(arguments).decode())
    except TertuliaError as error:
        return CheckedCall(call, tool, None, refusal(error))
    except Exception as error:
        return CheckedCall(call, tool, None, refusal(InternalError(_describe(error))))
    return CheckedCall(call, tool, arguments, None)


def _read_arguments(call: ToolCall, tool: Tool, tools: ToolLookup) -> tuple[Any, bool]:
    """(The arguments as they are used, whether defaults were added to what the model wrote.)"""
    if len(call.arguments) > MAX_ARGUMENTS:
        raise InvalidParamsError(f"the arguments are longer than {MAX_ARGUMENTS:,} characters")
    if tool.spec.kind == call.kind == "custom":
        return call.arguments, False
    if call.arguments.count("[") + call.arguments.count("{") > MAX_BRACKETS:
        raise InvalidParamsError(f"the arguments have more than {MAX_BRACKETS:,} lists and objects")
    try:
        # Some models write nothing at all where a call has no arguments.
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidParamsError(f"the arguments are not JSON that can be read{_where(error)}") from None
    if not is_object(arguments):
        raise InvalidParamsError("the arguments are not a JSON object")
    if tool.spec.kind == "custom":
        return _custom_input(arguments), False
    schema = tools.schema(tool.spec)
    whole = schema.filled(arguments)
    schema.validate(whole)
    return whole, whole is not arguments


def _where(error: Exception) -> str:
    """Where the arguments break off or go wrong, so that the model can mend them."""
    at = re.search(r"\(byte (\d+)\)", str(error))
    if at is not None:
        return f" (at byte {at[1]})"
    return " (they break off)" if "truncated" in str(error) else ""


def _custom_input(arguments: dict[str, Any]) -> str:
    """Where an API knows no custom tools, their text comes as the one argument of a function."""
    match arguments:
        case {"input": str(text), **others} if not others:
            return text
        case _:
            raise InvalidParamsError("the arguments must be an object with the one text `input`")


def refusal(error: TertuliaError) -> Result:
    """What the model reads when a call is refused, or when a tool fails with an error of ours."""
    reason = bound(error.message, _MAX_REASON_BYTES).text
    text = msgspec.json.encode({"ok": False, "code": error.code, "reason": reason}).decode()
    return Result(text, success=False)


# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────


class Dispatch:
    """Runs the checked calls of one answer, once.

    One after another, but neighbours that are parallel_safe together. `began` and `ended` are called as it
    happens; outputs are to be recorded in the order of `progress`, which is that of the calls. A handoff begins
    and does not end here: it is kept for the continuation, after all ordinary calls have run. A tool that may
    change something runs only when `committed` has returned: a resumed session that finds an unfinished call after a
    crash must be able to tell whether it had been started. Before that `changes` is told which calls these are.
    """

    __slots__ = ("_began", "_changes", "_committed", "_context_for", "_ended", "_hooks", "_timeout_s", "progress")

    def __init__(
        self,
        checked: Sequence[CheckedCall],
        context_for: ContextFor,
        *,
        began: Callable[[ToolCall], object],
        ended: Callable[[CompletedCall], object],
        committed: Callable[[], Awaitable[object]] | None = None,
        timeout_s: float | None = TOOL_TIMEOUT_S,
        changes: Callable[[Sequence[CheckedCall]], Awaitable[object]] | None = None,
        hooks: CallHooks | None = None,
    ) -> None:
        self._hooks = hooks
        self._changes = changes
        self.progress = tuple(CallProgress(call) for call in checked)
        self._context_for = context_for
        self._began = began
        self._ended = ended
        self._committed = committed
        self._timeout_s = timeout_s

    @property
    def outputs(self) -> list[CompletedCall]:
        """What has ended so far, in the order of the calls."""
        return [progress.outcome for progress in self.progress if isinstance(progress.outcome, CompletedCall)]

    @property
    def handoffs(self) -> list[tuple[ToolCall, Handoff]]:
        """The calls that another conversation must answer, in the order of the calls."""
        return [
            (progress.checked.call, progress.outcome)
            for progress in self.progress
            if isinstance(progress.outcome, Handoff)
        ]

    async def run(self) -> None:
        """Run them all; a call that ends the task is the last that runs.

        Only a cancellation comes through, and the error of `committed`: then nothing of that batch has run.
        """
        turns = _LoopTurns()
        for batch in self._batches():
            await turns.give()
            if _is_cancelled():
                # A tool swallowed the cancellation; no other begins after it.
                raise asyncio.CancelledError
            await self._begin(batch)
            if len(batch) == 1:
                await self._handle(batch[0])
            else:
                async with asyncio.TaskGroup() as group:
                    for progress in batch:
                        group.create_task(self._handle(progress))
            if any(
                isinstance(progress.outcome, CompletedCall) and progress.outcome.result.ends_task for progress in batch
            ):
                return

    def _batches(self) -> Iterator[Sequence[CallProgress]]:
        for together, group in groupby(self.progress, key=lambda progress: _is_parallel_safe(progress.checked)):
            calls, size = list(group), MAX_PARALLEL if together else 1
            yield from (calls[start : start + size] for start in range(0, len(calls), size))

    async def _begin(self, batch: Sequence[CallProgress]) -> None:
        for progress in batch:
            progress.begun = True
            self._began(progress.checked.call)
        if self._changes is not None:
            await self._changes([progress.checked for progress in batch])
        if self._committed is not None and any(_may_change(progress.checked) for progress in batch):
            await self._committed()

    async def _handle(self, progress: CallProgress) -> None:
        call = progress.checked.call
        context = self._context_for(call)
        started = context.clock.monotonic()
        outcome = progress.checked.refusal or await self._run(progress.checked, context)
        if isinstance(outcome, Handoff):
            progress.outcome = outcome
            return
        result, truncated = bound_output(outcome, context.rights.limits.max_output_bytes)
        duration_ms = round((context.clock.monotonic() - started) * 1000)
        progress.outcome = CompletedCall(call, result, truncated, duration_ms)
        self._ended(progress.outcome)

    async def _run(self, checked: CheckedCall, context: CallContext) -> Outcome:
        if self._hooks is None:
            return await self._attempt(checked, context)
        assert checked.tool is not None, "a call without a tool was refused"
        # Not within the tool's deadline: a hook has its own.
        run = partial(self._attempt, checked)
        return await self._hooks.around(checked.call, checked.tool, checked.arguments, context, run)

    async def _attempt(self, checked: CheckedCall, context: CallContext) -> Outcome:
        assert checked.tool is not None, "a call without a tool was refused"
        deadline = asyncio.timeout(self._timeout_s)
        context = replace(context, unhurried=partial(_paused, deadline))
        left: list[asyncio.Future[Any]] = []
        try:
            with abandoned_threads() as left:
                async with deadline:
                    outcome = await checked.tool.run(checked.arguments, context)
        except TertuliaError as error:
            return refusal(error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            # A tool may raise CancelledError although this task was not cancelled: then it is its own failure.
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                if left:
                    # A thread cannot be stopped. The canceller decides how long that may take, then abandons it.
                    await asyncio.wait(left)
                raise
            if deadline.expired():
                return Result(f"timed out after {self._timeout_s:g} s", success=False)
            return Result(_describe(error), success=False)
        return _settled(outcome)


@contextmanager
def _paused(deadline: asyncio.Timeout) -> Generator[None]:
    """Stop the clock of the deadline inside the block."""
    loop, ends = asyncio.get_running_loop(), deadline.when()
    if ends is None:
        yield
        return
    left = ends - loop.time()
    deadline.reschedule(None)
    try:
        yield
    finally:
        deadline.reschedule(loop.time() + left)


def render_result(
    render: Callable[[TargetResult], Result], result: TargetResult, max_bytes: int | None
) -> tuple[Result, bool]:
    """(what the model reads of a call that was handed over, whether anything was left out). Never raises."""
    try:
        match _settled(render(result)):
            case Result() as answer:
                return bound_output(answer, max_bytes)
            case Handoff():
                failure = "the tool answered a handoff with another one"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failure = _describe(error)
    return Result(failure, success=False), False


def _is_parallel_safe(checked: CheckedCall) -> bool:
    return checked.refusal is not None or (checked.tool is not None and checked.tool.parallel_safe)


def _may_change(checked: CheckedCall) -> bool:
    return checked.refusal is None and checked.tool is not None and not checked.tool.read_only


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _settled(returned: object) -> Outcome:
    try:
        return validate_outcome(returned)
    except (TypeError, ValueError, RecursionError) as error:
        failure = f"the tool returned a {type(returned).__name__} that cannot be used: {_describe(error)}"
    return Result(failure, success=False)


def _describe(error: BaseException) -> str:
    """The error for the model: its type and text, without a traceback."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        text = ""
    return bound(f"{name}: {text}" if text else name, _MAX_REASON_BYTES).text
