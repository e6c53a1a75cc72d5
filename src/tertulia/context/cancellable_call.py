"""Asking somebody else's function, plain or `async`, so that it can be given up."""

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
    """What it answers. A plain function runs in a thread of its own, where it blocks nobody; if it returns something to
    wait for, that is waited for here.

    Who is cancelled while it runs leaves: at once if it is in a thread, else when it stops, or at the second
    cancellation if it does not. The function's own timeouts are its own affair. SystemExit comes as an Internal error.
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
    """How many requests to stop the running task has, those not counted that were taken back."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _wait_for_thread() -> None:
    """Wait a while for a thread: many agents may start at once. If there is none then, asking says so."""
    for _ in range(_MAX_POLLS):
        if has_free_thread():
            return
        await asyncio.sleep(_POLL_S)


async def _await_result(answer: Awaitable[T]) -> T:
    return await answer


class _Stoppable(Generator[Any, Any, T]):
    """A coroutine that is closed by the second cancellation of its task, whatever it made of the first.

    Not a task, which could simply be left: it would run on for ever, and nobody would own it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._before = pending_cancellations()

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def send(self, value: Any, /) -> Any:
        """Go on."""
        return self._coroutine.send(value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None, /) -> Any:
        """Go on with an error."""
        error: BaseException = kind() if isinstance(kind, type) else kind
        # The errors are not what is counted: a timeout or a group of the coroutine's own takes its request back.
        if isinstance(error, asyncio.CancelledError) and pending_cancellations() - self._before >= _MAX_CANCELLATIONS:
            # One that will not hear of this either is dropped as it stands.
            with contextlib.suppress(RuntimeError):
                self._coroutine.close()
            raise error
        return self._coroutine.throw(error)
