"""Runs the requests of one client side by side: each is answered exactly once, and a notification never.

Bounds how many run at a time and how many bytes they hold, and logs what cannot be answered. Knows no method, no
transport, and no requests in the other direction: see `peer.py` for those.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tertulia.errors import BusyError, InternalError, TaskCancelledError, TertuliaError
from tertulia.policy.log_redaction import log_text
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.messages import (
    DEFAULT_NUMBER,
    ERROR_NUMBERS,
    RequestId,
    RpcRequest,
    encode_any_result,
    encode_batch,
    encode_error,
)

MAX_REQUESTS = 1_000
"""The most requests in flight on a connection, and as many again of the methods that are counted apart."""
MAX_REQUEST_BYTES = 256 * 1024 * 1024
"""The most bytes of all requests in flight on a connection."""
_LAST_GRACE_S = 1.0
"""How many seconds cancelled requests have when a connection ends."""
MAX_WARNING_KINDS = 100
"""So many kinds are counted apart, because clients can choose their names; all others count as one."""
_OTHER_KINDS = "of other kinds"
_log = logging.getLogger(__name__)

ResponseCallback = Callable[[bytes | None], None]
"""Takes the response to a request; None where none is due."""


class RpcDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How a protocol uses JSON-RPC 2.0."""

    numbers: Mapping[type[TertuliaError], int] = MappingProxyType(ERROR_NUMBERS)
    """The `code` of an error response, by the error's class."""
    other_number: int = DEFAULT_NUMBER
    """The `code` of any other error."""
    counted_apart: Collection[str] = ()
    """Methods with a limit of their own: so a client with too much under way can still stop it."""
    max_batch: int = 0
    """Requests in a batch; 0 where there are no batches."""
    asks_client: bool = True
    """Requests go to the client as well, so a response may come from it."""
    withdraw: str | None = None
    """The notification that takes back a request to the client, where the protocol has one."""
    bare: bool = False
    """Messages go without their `jsonrpc` member, may come without it, and none has a null id."""

    def error(self, id: RequestId | None, error: TertuliaError) -> bytes:
        """The error response with this protocol's number."""
        return encode_error(id, error, self.numbers.get(type(error), self.other_number))


class MethodResult(msgspec.Struct, frozen=True):
    """What a method returns to be sent."""

    result: Any = {}
    then: Callable[[], object] | None = None
    """Called as soon as the response is on its way: for events of a session that the client learns of by it."""


MethodHandler = Callable[[str, dict[str, Any]], Awaitable[MethodResult]]
"""Carries out one request or notification, by method and params; a TertuliaError becomes the error response."""


class _Job(msgspec.Struct, frozen=True, eq=False):
    request: RpcRequest
    size: int
    deliver: ResponseCallback


class RequestRunner:
    """The requests in flight on one connection. They begin in the order they came."""

    def __init__(self, serve: MethodHandler, dialect: RpcDialect, policy: Callable[[], StoragePolicy]) -> None:
        """`policy`: the storage policy that the log has to obey now."""
        self._serve = serve
        self._dialect = dialect
        self._policy = policy
        self._nursery = Nursery()
        self._warnings = CountedLog(_log)
        self._bytes = 0
        self._jobs: dict[asyncio.Task[None], _Job] = {}
        """Those that are not answered yet."""

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of the requests that are not answered yet."""
        return set(self._jobs)

    async def begin(self, request: RpcRequest, size: int, deliver: ResponseCallback) -> None:
        """Start it, or refuse it where there are too many. Returns when the next request may begin."""
        if self._is_full(request, size):
            busy = BusyError("too many requests in flight on this connection", retry_after_s=1)
            deliver(self._error(request, busy))
            return
        job = _Job(request, size, deliver)
        self._bytes += size
        task = self._nursery.start(self._run(job), "request")
        self._jobs[task] = job
        task.add_done_callback(self._ended)
        if request.method == "initialize":
            # A client that does not wait for the response means, by its next request, the session that starts here.
            await asyncio.wait((task,))
        # Its first step runs now: so requests begin in order, and a cancellation finds its request.
        await asyncio.sleep(0)

    def find(self, id: RequestId) -> RpcRequest | None:
        """The request of that id, if it is not answered yet."""
        return next((job.request for job in self._jobs.values() if _is_same(job.request.id, id)), None)

    def cancel(self, id: RequestId) -> None:
        """Stop the request, and answer that it was cancelled."""
        for task, job in self._jobs.items():
            if _is_same(job.request.id, id):
                task.cancel()

    async def idle(self) -> None:
        """Wait until every request is answered."""
        while self._jobs:
            await asyncio.wait(self._jobs)
            await asyncio.sleep(0)

    async def close(self, timeout_s: float) -> None:
        """Wait at most so long for what still runs, then cancel it; both are answered."""
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=timeout_s)
        await self._nursery.close(_LAST_GRACE_S)
        # The last step of a cancelled request answers it.
        await asyncio.sleep(0)

    def warn(self, kind: str, text: str) -> None:
        """Log something that cannot be answered, with its count: see `CountedLog`."""
        self._warnings.write(kind, text)

    def _is_full(self, request: RpcRequest, size: int) -> bool:
        if self._bytes + size > MAX_REQUEST_BYTES:
            return True
        if len(self._jobs) < MAX_REQUESTS:
            return False
        apart = self._dialect.counted_apart
        is_apart = request.method in apart
        return sum((job.request.method in apart) is is_apart for job in self._jobs.values()) >= MAX_REQUESTS

    async def _run(self, job: _Job) -> None:
        request, then = job.request, None
        try:
            done = await self._serve(request.method, request.params)
            line = None if request.id is None else await encode_any_result(request.id, done.result)
            then = done.then
        except TertuliaError as error:
            line = self._error(request, error)
        except Exception as error:
            _log.error("%.64r failed: %s", request.method, log_text(error, self._policy()))
            line = self._error(request, InternalError("the server failed to answer; its log says why"))
        # In this step: what the request started, such as events of a session, comes after its response.
        task = asyncio.current_task()
        assert task is not None
        self._answer(task, line)
        if then is not None:
            then()

    def _ended(self, task: asyncio.Task[None]) -> None:
        # Not in `_run`: one that is cancelled before its first step has to be answered too.
        if task.cancelled() and (job := self._jobs.get(task)) is not None:
            cancelled = TaskCancelledError("it was cancelled, or the connection ended, before there was an answer")
            self._answer(task, self._error(job.request, cancelled))

    def _answer(self, task: asyncio.Task[None], line: bytes | None) -> None:
        # Before the response is sent: a client that has it may send the next request at once.
        job = self._jobs.pop(task)
        self._bytes -= job.size
        job.deliver(line)

    def _error(self, request: RpcRequest, error: TertuliaError) -> bytes | None:
        if request.id is not None:
            return self._dialect.error(request.id, error)
        # A notification: only the log can tell. Its method and the message may be the client's own words.
        if isinstance(self._policy(), Full):
            kind = f"{error.code} {request.method[:64]}"
            words = f"{request.method!r:.66}: {error.message}"
        else:
            kind, words = error.code, "its text may not be stored"
        self.warn(kind, f"a notification was not carried out: {error.code}: {words}")
        return None


class BatchResponse:
    """Gathers the responses to a batch, and delivers them as one when the last has come."""

    def __init__(self, size: int, deliver: ResponseCallback) -> None:
        self._missing = size
        self._deliver = deliver
        self._lines: list[bytes] = []

    def add(self, line: bytes | None) -> None:
        """The response to one of the requests."""
        self._missing -= 1
        if line is not None:
            self._lines.append(line)
        if not self._missing and self._lines:
            self._deliver(encode_batch(self._lines))


class CountedLog:
    """Writes the 1st, the 10th, the 100th … warning of a kind, and counts the others.

    A client can cause any number of warnings: else it could fill the log, and with it the disk.
    """

    __slots__ = ("_counts", "_log")

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._counts: Counter[str] = Counter()

    def write(self, kind: str, text: str) -> None:
        """`kind`: which warnings count as the same. `text`: what is written, the first time and with its count."""
        if kind not in self._counts and len(self._counts) >= MAX_WARNING_KINDS:
            kind = _OTHER_KINDS
            text = "more kinds of messages were not carried out than are told apart"
        self._counts[kind] += 1
        count = self._counts[kind]
        if count == 1:
            self._log.warning("%s", text)
        elif str(count).strip("0") == "1":
            self._log.warning("%s (%s times so far)", text, f"{count:,}")


def default_policy() -> StoragePolicy:
    """The policy of a connection that has set none: the log has no texts."""
    return HeadersOnly()


def _is_same(one: RequestId | None, other: RequestId) -> bool:
    # By its type too: True is equal to 1.
    return type(one) is type(other) and one == other
