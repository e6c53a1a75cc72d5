"""Calls a function of another package, plain or `async`, so that the call can be cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

from tertulia.errors import InternalError
from tertulia.tools.threads import has_free_thread, run_in_thread

_POLL_S = 0.02
_MAX_POLLS = 250
_MAX_CANCELLATIONS = 2

T = TypeVar("T")


async def call_cancellable(function: Callable[..., Any], *args: Any) -> Any:
    """The result of the function. A plain one runs in a thread of its own, so that it does not block the loop; if it
    returns an awaitable, that is awaited here.

    A cancelled caller leaves at once if the function is in a thread, else when it stops, or at the second cancellation
    if it does not. Timeouts inside the function have no effect on that. SystemExit becomes an InternalError.
    """
    if inspect.iscoroutinefunction(function):
        answer = function(*args)
    else:
        await _wait_for_thread()
        answer = await run_in_thread(function, *args)
    try:
        return await _Stoppable(_await_result(answer)) if inspect.isawaitable(answer) else answer
    except SystemExit:
        # As in a thread: it is a mistake of the function, and here it would end the process.
        raise InternalError("the function ended with SystemExit") from None


def pending_cancellations() -> int:
    """How many cancellations of the running task are pending, without those that were taken back."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _wait_for_thread() -> None:
    """Wait a while for a free thread: many agents may start at once. Without one the call itself raises."""
    for _ in range(_MAX_POLLS):
        if has_free_thread():
            return
        await asyncio.sleep(_POLL_S)


async def _await_result(answer: Awaitable[T]) -> T:
    return await answer


class _Stoppable(Generator[Any, Any, T]):
    """A coroutine that is closed by the second cancellation of its task, whatever it did at the first.

    Not a task of its own, which could simply be left: it might run without end, and without an owner.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._before = pending_cancellations()

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def send(self, value: Any, /) -> Any:
        """Resume the coroutine with a value."""
        return self._coroutine.send(value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Resume the coroutine with an error, or close it."""
        error: BaseException = kind() if isinstance(kind, type) else kind
        # The errors are not counted: a timeout or a task group of the coroutine's own takes its cancellation back.
        if isinstance(error, asyncio.CancelledError) and pending_cancellations() - self._before >= _MAX_CANCELLATIONS:
            # A coroutine that ignores GeneratorExit too is dropped.
            with contextlib.suppress(RuntimeError):
                self._coroutine.close()
            raise error
        return self._coroutine.throw(error)
