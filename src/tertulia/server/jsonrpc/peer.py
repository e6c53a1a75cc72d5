"""The client at the other end, of ACP or of Codex: JSON-RPC 2.0 in both directions. Knows no method, and no transport.

Not the connection of ACP's SDK: it drops in silence what it cannot read, and answers a fault of ours with its text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from itertools import count
from typing import Any, cast

import msgspec

from tertulia.errors import (
    BusyError,
    ClosedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    NotFoundError,
    NotInitializedError,
    ParseError,
    TaskCancelledError,
    TertuliaError,
)
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.counted_log import CountedLog
from tertulia.server.jsonrpc.event_sender import Sink
from tertulia.server.jsonrpc.messages import (
    RequestId,
    RequestRefusal,
    RpcRequest,
    encode_error,
    encode_result,
    read_request,
)
from tertulia.server.jsonrpc.strict_json import decode_json, find_unencodable

MAX_REQUESTS = 1_000
"""Of the client, in flight."""

_NUMBERS: dict[type[TertuliaError], int] = {
    ParseError: -32700,
    InvalidRequestError: -32600,
    NotInitializedError: -32600,
    MethodNotFoundError: -32601,
    InvalidParamsError: -32602,
    BusyError: -32001,
    NotFoundError: -32002,
    ClosedError: -32002,
    TaskCancelledError: -32800,
}
"""As ACP counts: -32000 would have an editor ask its user to log in, and -32002 is what is not there."""
_OTHER = -32603
_HEAD = b'{"jsonrpc":"2.0",'
_WITHOUT_ID = _HEAD + b'"id":null,'
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class MethodResult(msgspec.Struct, frozen=True):
    """What a request comes to."""

    result: Any = {}
    then: Callable[[], object] | None = None
    """Done as soon as the answer is on its way: news of a session that the client has only just heard of."""


MethodHandler = Callable[[str, dict[str, Any]], Awaitable[MethodResult]]
"""Carries out one request or notification; an AgentError is its answer."""


class Peer:
    """One client. Each of its requests gets exactly one answer; requests begin in the order they came."""

    def __init__(
        self,
        sink: Sink,
        serve: MethodHandler,
        numbers: Mapping[type[TertuliaError], int] = _NUMBERS,
        *,
        bare: bool = False,
        withdraw: str | None = None,
        cancels: Collection[str] = (),
    ) -> None:
        """`bare`: messages go without their `jsonrpc` member, and may come without it.

        `withdraw`: the notification that takes a question back, where the protocol has one. `cancels`: methods that end
        what others have begun.
        """
        self._numbers = numbers
        self._withdraw = withdraw
        self._cancels = cancels
        self._bare = bare
        self._sink = sink
        self._serve = serve
        self._nursery = Nursery()
        self._jobs: dict[asyncio.Task[MethodResult | TertuliaError], RpcRequest] = {}
        self._ids = count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._deaf = False
        """It answers nothing any more."""
        self._gone = False
        self._warnings = CountedLog(_log)

    # ── the client speaks ────────────────────────────────────────────────────────────────────────────────────

    async def receive(self, line: bytes | bytearray) -> None:
        """Take one message. Returns when the next one may be given, and not before."""
        try:
            message = await decode_json(line)
        except ParseError as error:
            await self.refuse(error)
            return
        if isinstance(message, dict) and self._is_answer(fields := cast("dict[str, Any]", message)):
            self._settle(fields)
        else:
            self._begin(message)
            # Its first step now: so requests begin in order, and a cancellation finds what it is about.
            await asyncio.sleep(0)
        await self._sink.drain()

    async def refuse(self, error: TertuliaError) -> None:
        """Answer a message that cannot be read. Returns like `receive`."""
        self._send(self._refusal(None, error))
        await self._sink.drain()

    def _begin(self, message: Any) -> None:
        if isinstance(message, list):
            self._send(self._refusal(None, InvalidRequestError("there are no batches here: send one object a line")))
            return
        try:
            request = read_request(_with_jsonrpc_member(message) if self._bare else message)
        except RequestRefusal as refused:
            if refused.line is not None:
                self._send(self._refusal(refused.id, refused.error))
            return
        # What cancels has room of its own, whatever else there is too much of.
        if len(self._jobs) >= (2 * MAX_REQUESTS if request.method in self._cancels else MAX_REQUESTS):
            if request.id is not None:
                busy = BusyError("too many requests in flight on this connection", retry_after_s=1)
                self._send(self._refusal(request.id, busy))
            return
        job = self._nursery.start(self._run(request), "a request")
        self._jobs[job] = request
        # Whatever becomes of it: a fault of ours is logged by the nursery, and answered here.
        job.add_done_callback(partial(self._ended, request))

    async def _run(self, request: RpcRequest) -> MethodResult | TertuliaError:
        try:
            return await self._serve(request.method, request.params)
        except TertuliaError as error:
            return error

    def _ended(self, request: RpcRequest, job: asyncio.Task[MethodResult | TertuliaError]) -> None:
        self._jobs.pop(job, None)
        done: MethodResult | TertuliaError
        if job.cancelled():
            done = TaskCancelledError("it was cancelled, or the connection ended, before there was an answer")
        elif job.exception() is not None:
            done = InternalError("the agent failed to answer; its log says why")
        else:
            done = job.result()
        if isinstance(done, TertuliaError):
            if request.id is not None:
                self._send(self._refusal(request.id, done))
            return
        if request.id is not None:
            self._send(encode_result(request.id, done.result))
        if done.then is not None:
            done.then()

    def under_way(self, id: RequestId) -> RpcRequest | None:
        """A request of the client's that is not answered yet."""
        return next((request for request in self._jobs.values() if _is(request.id, id)), None)

    def cancel(self, id: RequestId) -> None:
        """The client does not want it any more: stop it, and answer so."""
        for job, request in self._jobs.items():
            if _is(request.id, id):
                job.cancel()

    # ── we speak ─────────────────────────────────────────────────────────────────────────────────────────────

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell it something."""
        self._send(encode_notification(method, params))

    def new_id(self) -> int:
        """For a request to it."""
        return next(self._ids)

    async def ask(self, method: str, params: dict[str, Any], id: int | None = None) -> dict[str, Any] | None:
        """What it answers; None for a refusal, for nonsense, and where nobody is there any more."""
        if self._deaf:
            return None
        id = self.new_id() if id is None else id
        future = self._asked[id] = asyncio.get_running_loop().create_future()
        self._send(_encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        try:
            return await future
        except asyncio.CancelledError:
            if self._withdraw is not None:
                self.notify(self._withdraw, {"requestId": id})
            raise
        finally:
            self._asked.pop(id, None)

    def _is_answer(self, message: dict[str, Any]) -> bool:
        """Also one without a result, where something was asked: else whoever waits for it would wait on."""
        if "method" in message or "id" not in message:
            return False
        # Whoever speaks bare is told of no message that makes no sense, see `_send`.
        return self._bare or "result" in message or "error" in message or self._waiting(message["id"]) is not None

    def _waiting(self, id: Any) -> asyncio.Future[Any] | None:
        # By its type too: True is equal to 1.
        return self._asked.get(id) if type(id) is int else None

    def _settle(self, message: dict[str, Any]) -> None:
        future, result = self._waiting(message["id"]), message.get("result")
        # An answer that nobody waits for comes late, or was never asked for: it changes nothing.
        if future is not None and not future.done():
            fit = isinstance(result, dict) and find_unencodable(cast("dict[str, Any]", result)) is None
            future.set_result(cast("dict[str, Any]", result) if fit else None)

    def _send(self, line: bytes) -> None:
        if self._bare and line.startswith(_WITHOUT_ID):
            # Whoever speaks so knows no answer without an id. What was wrong with it may be the client's own words.
            self._warnings.tell("unreadable", "a message could not be read, and nobody was answered")
        elif not self._gone:
            self._sink.send((strip_jsonrpc_member(line) if self._bare else line,))

    def _refusal(self, id: RequestId | None, error: TertuliaError) -> bytes:
        return encode_error(id, error, self._numbers.get(type(error), _OTHER))

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    async def idle(self) -> None:
        """Wait until every request that was received is answered."""
        while self._jobs:
            await asyncio.wait(self._jobs)
            await asyncio.sleep(0)

    def forsake(self) -> None:
        """The client answers nothing any more: whoever waits for it, or will, is told so."""
        self._deaf = True
        for future in self._asked.values():
            if not future.done():
                future.set_result(None)

    async def close(self, timeout_s: float) -> None:
        """Have what still runs answered, at most so long, and say nothing more."""
        self.forsake()
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=timeout_s)
        await self._nursery.close(timeout_s)
        # What was cancelled is answered in its last step.
        await asyncio.sleep(0)
        self._gone = True


def encode_notification(method: str, params: dict[str, Any]) -> bytes:
    """One message that nobody answers."""
    return _encode({"jsonrpc": "2.0", "method": method, "params": params})


def strip_jsonrpc_member(line: bytes) -> bytes:
    """A message of ours without its `jsonrpc` member, which always comes first."""
    return b"{" + line.removeprefix(_HEAD) if line.startswith(_HEAD) else line


def _is(one: RequestId | None, other: RequestId) -> bool:
    # By its type too: True is equal to 1.
    return type(one) is type(other) and one == other


def _with_jsonrpc_member(message: Any) -> Any:
    return {"jsonrpc": "2.0", **cast("dict[str, Any]", message)} if isinstance(message, dict) else message
