"""Runs synchronous functions off the loop, in threads that the process need not wait for, and calls functions of other
packages so that the call can be cancelled.

Not `asyncio.to_thread` or any other ThreadPoolExecutor: its threads are joined when the process ends, so that
one function that never returns would keep the process for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from tertulia.errors import InternalError, LimitError, TertuliaError
from tertulia.protocol.events import EventData
from tertulia.tools.tool import CallContext

MAX_THREADS = 64
"""Alive at once in the process, with those that were abandoned and still run."""

_log = logging.getLogger(__name__)
_slots = threading.BoundedSemaphore(MAX_THREADS)

T = TypeVar("T")
_POLL_S = 0.02
_MAX_POLLS = 250
_MAX_CANCELLATIONS = 2


async def run_in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call it in a thread of its own, with the caller's context variables, and return or raise what it does.

    A cancelled caller leaves at once; the thread ends when its function does, and the result is dropped (see
    `abandoned_threads` for how to wait for that). Raises Limit when too many threads are still busy. SystemExit and the
    like come as an Internal error: in a thread they are a mistake of the function, on the loop they would end the
    process.
    """
    if not _slots.acquire(blocking=False):
        raise LimitError(f"{MAX_THREADS} functions are still running in threads; none can be added", limit=MAX_THREADS)
    delivery = _Delivery[T]()
    context = contextvars.copy_context()

    def work() -> None:
        with delivery:
            delivery.value = context.run(function, *args)

    try:
        threading.Thread(target=work, name="tertulia tool", daemon=True).start()
    except RuntimeError:
        _slots.release()
        raise LimitError("no thread could be started: the system has no room for another") from None
    try:
        # Shielded: the delivery still tells when the thread is done, though its result is not wanted.
        return await asyncio.shield(delivery.arrived)
    except asyncio.CancelledError:
        if (left := _left_behind.get()) is not None:
            left.append(delivery.arrived)
        # Its result is never read; without this the loop complains of an exception that was not retrieved.
        delivery.arrived.add_done_callback(lambda arrived: arrived.cancelled() or arrived.exception())
        raise


def has_free_thread() -> bool:
    """Whether one more thread could be had now."""
    if not _slots.acquire(blocking=False):
        return False
    _slots.release()
    return True


_left_behind: contextvars.ContextVar[list[asyncio.Future[Any]] | None] = contextvars.ContextVar(
    "left_behind", default=None
)


@contextlib.contextmanager
def abandoned_threads() -> Generator[list[asyncio.Future[Any]]]:
    """The functions that were left running in threads inside this block: futures that are done when they are."""
    left: list[asyncio.Future[Any]] = []
    token = _left_behind.set(left)
    try:
        yield left
    finally:
        _left_behind.reset(token)


def thread_context(call: CallContext) -> CallContext:
    """The context for a function off the loop: what it publishes goes out in order, and before its result.

    It never waits and never raises; what comes too late, or cannot be published, is dropped.
    """
    loop = asyncio.get_running_loop()

    def publish(data: EventData) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_publish, call, data)

    return replace(call, publish=publish)


def _publish(call: CallContext, data: EventData) -> None:
    try:
        call.publish(data)
    except TertuliaError as error:
        _log.warning("call %s: %s", call.call_id, error.message)
    except asyncio.CancelledError:
        # Its task has ended, and a thread cannot be stopped.
        pass


class _Delivery(Generic[T]):
    """Carries the result of its `with` block from a thread to the loop that waits for it."""

    __slots__ = ("_loop", "arrived", "value")

    value: T

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.arrived: asyncio.Future[T] = self._loop.create_future()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        _slots.release()
        # The loop may be closed by now, with every task that waited for the result.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrive, error)
        return True

    def _arrive(self, error: BaseException | None) -> None:
        if self.arrived.done():
            return
        if error is None:
            self.arrived.set_result(self.value)
        # A future cannot hold a StopIteration.
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            self.arrived.set_exception(error)
        else:
            self.arrived.set_exception(InternalError(f"the function ended its thread with {type(error).__name__}"))


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
