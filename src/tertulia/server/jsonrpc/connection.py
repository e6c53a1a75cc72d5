"""JSON-RPC 2.0 for one client: its requests, side by side, and the events of its sessions.

Knows no transport: lines come in by `receive`, messages go out through a `Sink`. Adds nothing to the operation set but
what belongs to a connection: `initialize` and `events/subscribe`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast

from msgspec.structs import asdict

from tertulia.errors import (
    BusyError,
    ClosedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    NotInitializedError,
    ParseError,
    TaskCancelledError,
    TertuliaError,
)
from tertulia.policy.redaction import log_text
from tertulia.protocol.inputs import Initialize, Subscribe
from tertulia.protocol.storage import Full, StoragePolicy, strictest
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.client_sessions import ClientSessions
from tertulia.server.jsonrpc.counted_log import CountedLog
from tertulia.server.jsonrpc.event_sender import EventBatcher, Sink
from tertulia.server.jsonrpc.messages import (
    RequestRefusal,
    RpcRequest,
    encode_batch,
    encode_error,
    encode_result,
    read_request,
)
from tertulia.server.jsonrpc.strict_json import decode_json
from tertulia.session.answers import InitializeAnswer, ObserveAnswer, ServerInfo
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.describe import PROTOCOL_VERSION, capabilities
from tertulia.session.host import Host
from tertulia.session.inputs import parse, to_snake_case
from tertulia.session.operations import NO_OWN_SESSION, OperationResult, call
from tertulia.session.session import Session
from tertulia.version import __version__

MAX_BATCH = 100
MAX_REQUESTS = 1_000
"""Messages in flight on a connection, and as many other requests: whoever has too much under way can still stop it."""
_LONG_METHODS = frozenset({"conversation/message", "conversation/compact"})
MAX_REQUEST_BYTES = 256 * 1024 * 1024
"""Of all requests in flight on one connection."""

_LAST_GRACE_S = 1.0
"""For what is cancelled when a connection ends."""

ResponseCallback = Callable[[bytes | None], None]
"""Takes what a request comes to: its answer, or None where none is due."""

_log = logging.getLogger(__name__)


class RpcConnection:
    """One client, from its first line to its last.

    Each request gets exactly one answer, whatever happens to it, and a notification none. Requests begin in the order
    they came and run side by side. An answer is sent as soon as there is one, but a task's after all events of that
    task. Requests in flight are bounded, and a client that does not read its answers is not read either.
    """

    def __init__(self, host: Host, sink: Sink, ready: Session | None = None) -> None:
        """`ready`: a session that waits for its client already."""
        self._host = host
        self._ready = ready
        self._out = EventBatcher(sink, lambda: self._requests > 0)
        self._nursery = Nursery()
        self._jobs: set[asyncio.Task[None]] = set()
        """Requests and feeds."""
        self._own: Session | None = None
        self._client = "JSON-RPC client"
        self._observing = False
        """It is initialized without a session of its own."""
        self._following = ClientSessions(host, self._out, self._nursery, self._start)
        self._requests = 0
        self._long = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._request_bytes = 0
        self._warnings = CountedLog(_log)

    # ── lines come in ────────────────────────────────────────────────────────────────────────────────────────

    async def receive(self, line: bytes | bytearray) -> None:
        """Take one message. Returns when the next one may be given, and not before."""
        try:
            message = await decode_json(line)
        except ParseError as error:
            await self.refuse(error)
            return
        if not isinstance(message, list):
            await self._begin(message, len(line), self._send)
        elif 0 < len(entries := cast("list[Any]", message)) <= MAX_BATCH:
            answers = _Batch(len(entries), self._send)
            for entry in entries:
                await self._begin(entry, len(line) // len(entries), answers.add)
        else:
            self._send(
                encode_error(None, InvalidRequestError(f"a batch has 1 to {MAX_BATCH} requests, not {len(entries):,}"))
            )
        await self._out.drain()

    async def refuse(self, error: TertuliaError) -> None:
        """Answer a message that cannot be read. Returns like `receive`."""
        self._send(encode_error(None, error))
        await self._out.drain()

    @property
    def is_initialized(self) -> bool:
        """Whether the client has a session, or wants none."""
        return self._own is not None or self._observing

    async def idle(self) -> None:
        """Wait until every request that was received is answered."""
        await self._all_answered.wait()

    async def leave(self) -> None:
        """The client is gone: nothing more is sent to it, nothing stops. Returns when all it asked for has ended."""
        self._following.leave()
        while self._jobs:
            await asyncio.wait(self._jobs)

    async def close(self, timeout_s: float) -> bool:
        """Close the sessions that were started here, then wait at most so long for the client to take what is left.

        Whether it took everything. The sink is left open; nothing is sent to it any more.
        """
        await self._following.close()
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=timeout_s)
        taken = not self._jobs
        await self._nursery.close(_LAST_GRACE_S)
        return taken

    async def _begin(self, entry: Any, size: int, deliver: ResponseCallback) -> None:
        try:
            request = read_request(entry)
        except RequestRefusal as refused:
            deliver(refused.line)
            return
        if self._is_overloaded(request, size):
            deliver(self._failed(request, BusyError("too many requests in flight on this connection", retry_after_s=1)))
            return
        self._requests += 1
        self._long += request.method in _LONG_METHODS
        self._all_answered.clear()
        self._request_bytes += size
        job = self._start(self._serve(request, size, deliver), "request")
        if request.method == "initialize":
            # Whoever sends the next request without waiting for the answer means the session that begins here.
            await asyncio.wait((job,))
        else:
            # Its first step now: so requests begin in order, and answers that pile up stop the reading in time.
            await asyncio.sleep(0)

    def _is_overloaded(self, request: RpcRequest, size: int) -> bool:
        under_way = self._long if request.method in _LONG_METHODS else self._requests - self._long
        return under_way >= MAX_REQUESTS or self._request_bytes + size > MAX_REQUEST_BYTES

    # ── requests run ─────────────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, request: RpcRequest, size: int, deliver: ResponseCallback) -> None:
        line = None
        try:
            line = await self._answer(request)
        except TertuliaError as error:
            line = self._failed(request, error)
        except asyncio.CancelledError:
            line = self._failed(request, TaskCancelledError("the connection ended before there was an answer"))
            raise
        except Exception as error:
            _log.error("%.64r failed: %s", request.method, log_text(error, _policy(self._host)))
            line = self._failed(request, InternalError("the server failed to answer; its log says why"))
        finally:
            self._requests -= 1
            self._long -= request.method in _LONG_METHODS
            self._request_bytes -= size
            deliver(line)
            if not self._requests:
                self._all_answered.set()
                # It may have been a notification, and there is no answer that would take them along.
                self._out.flush()

    def _failed(self, request: RpcRequest, error: TertuliaError) -> bytes | None:
        if request.id is not None:
            return encode_error(request.id, error)
        # Nobody else will hear of it. Its name and the message may be the client's own words.
        told = isinstance(_policy(self._host), Full)
        words = f"{request.method!r:.66}: {error.message}" if told else "its text may not be stored"
        kind = f"{error.code} {request.method[:64]}" if told else error.code
        self._warnings.tell(kind, f"a notification was not carried out: {error.code}: {words}")
        return None

    async def _answer(self, request: RpcRequest) -> bytes | None:
        done = await self._perform(request, self._own)
        return None if request.id is None else encode_result(request.id, done.answer)

    async def _perform(self, request: RpcRequest, own: Session | None) -> OperationResult:
        match request.method:
            case "initialize":
                return OperationResult(await self._initialize(request.params))
            case "initialized":
                return OperationResult({})
            case _ if not self.is_initialized:
                raise NotInitializedError("say `initialize` first")
            case "events/subscribe":
                session = self._session(own, request.params)
                params = {name: value for name, value in to_snake_case(request.params).items() if name != "session_id"}
                return OperationResult(self._following.subscribe(session, parse(Subscribe, params)))
            case _:
                return await self._operate(own, request)

    async def _initialize(self, params: dict[str, Any]) -> InitializeAnswer | ObserveAnswer:
        if self.is_initialized:
            raise InvalidRequestError("this connection is initialized already")
        asked = parse(Initialize, params)
        if asked.client is not None:
            self._client = f"{asked.client.name} {asked.client.version}".strip()
        server = ServerInfo("tertulia", __version__)
        if asked.observe:
            if asked.session_id is not None:
                raise InvalidParamsError(
                    "observe makes no session: name it with `events/subscribe` {session_id} instead"
                )
            self._observing, self._following.attends = True, bool(asked.attend)
            return ObserveAnswer(
                protocol_version=PROTOCOL_VERSION, version=__version__, server=server, capabilities=capabilities()
            )
        self._following.attends = bool(asked.attend)
        if asked.session_id is None:
            self._own = session = self._ready or await self._host.start()
            self._following.adopt(session)
        else:
            self._own = session = await self._following.join(asked.session_id)
        return InitializeAnswer(**asdict(session.info), server=server, capabilities=capabilities())

    async def _operate(self, own: Session | None, request: RpcRequest) -> OperationResult:
        with answering_as(self._client):
            done = await call(self._host, own, request.method, request.params)
        if request.method in ("session/start", "session/resume"):
            self._following.adopt(self._host.find(done.answer.session_id))
        elif done.after_seq:
            session_id = _session_id_param(request.params) or (own.id if own is not None else "")
            await self._following.sent(session_id, done.after_seq)
            # The answer repeats a text that may be long and still on its way: one copy of it at a time.
            await self._out.drain()
        return done

    def _session(self, own: Session | None, params: dict[str, Any]) -> Session:
        """The one that the request is about."""
        session_id = _session_id_param(params)
        if isinstance(session_id, str):
            return self._host.find(session_id)
        if session_id is not None:
            raise InvalidParamsError("session_id must be a string")
        if own is None:
            raise InvalidParamsError(NO_OWN_SESSION)
        if own.closed:
            raise ClosedError("this connection's own session is closed; name another one, or start one")
        return own

    def _send(self, line: bytes | None) -> None:
        if line is not None:
            self._out.send_now(line)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        job = self._nursery.start(work, name)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job


class _Batch:
    """Gathers what the requests of a batch come to, and sends it as one when the last has come."""

    def __init__(self, size: int, deliver: ResponseCallback) -> None:
        self._missing = size
        self._deliver = deliver
        self._lines: list[bytes] = []

    def add(self, line: bytes | None) -> None:
        """What one of them came to."""
        self._missing -= 1
        if line is not None:
            self._lines.append(line)
        if not self._missing and self._lines:
            self._deliver(encode_batch(self._lines))


def _policy(host: Host) -> StoragePolicy:
    """What a log may say of a request: it does not know which of all conversations that was about."""
    return strictest(host.settings.rights().storage_policy, *(session.activity.storage for session in host.sessions()))


def _session_id_param(params: dict[str, Any]) -> Any:
    """The session that a request names, as it does it."""
    return params.get("session_id", params.get("sessionId"))
