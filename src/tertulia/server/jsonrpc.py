"""JSON-RPC 2.0 for one client: its requests, side by side, and the events of its sessions.

Knows no transport: lines come in by `receive`, messages go out through a `Sink`. Adds nothing to the operation set but
what belongs to a connection: `initialize` and `events/subscribe`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from tertulia.errors import (
    AgentError,
    Busy,
    Cancelled,
    Closed,
    Internal,
    InvalidRequest,
    NotInitialized,
    ParseError,
)
from tertulia.protocol.inputs import Initialize, Subscribe
from tertulia.scheduler.nursery import Nursery
from tertulia.server.envelopes import Refused, Request, answer, batch, read_request, refusal
from tertulia.server.feed import Feed, Sink
from tertulia.server.strict_json import decode
from tertulia.session.host import Host
from tertulia.session.inputs import parse, snake
from tertulia.session.operations import Done, call
from tertulia.session.session import Session
from tertulia.version import __version__

MAX_BATCH = 100
MAX_REQUESTS = 1_000
"""In flight on one connection."""
MAX_REQUEST_BYTES = 256 * 1024 * 1024
"""Of all requests in flight on one connection."""

_NEED_NO_SESSION = frozenset({"session/start", "session/list", "session/close"})

_log = logging.getLogger(__name__)
Deliver = Callable[[bytes | None], None]
"""Takes what a request comes to: an answer, or None where none is due."""


class Connection:
    """One client, from its first line to its last.

    Each request gets exactly one answer, whatever happens to it, and a notification none. An answer is sent as soon as
    there is one, but a task's after all events of that task. Requests begin in the order they came and run side by
    side. What a client can make us hold is bounded; one that does not read its answers is not read either.
    """

    def __init__(self, host: Host, sink: Sink) -> None:
        self._host = host
        self._sink = sink
        self._nursery = Nursery()
        self._own: Session | None = None
        self._sessions: list[Session] = []
        """Those that were started here; they end with the connection."""
        self._feeds: dict[str, Feed] = {}
        """By session, also of sessions that others started."""
        self._requests = 0
        self._request_bytes = 0

    # ── lines come in ────────────────────────────────────────────────────────────────────────────────────────

    async def receive(self, line: bytes) -> None:
        """Take one message. Returns when the next may be given, which must not happen before."""
        try:
            message = decode(line)
        except ParseError as error:
            await self.refuse(error)
            return
        if not isinstance(message, list):
            await self._begin(message, len(line), self._send)
        elif 0 < len(message) <= MAX_BATCH:
            answers = _Batch(len(message), self._send)
            for entry in message:
                await self._begin(entry, len(line) // len(message), answers.add)
        else:
            self._send(refusal(None, InvalidRequest(f"a batch has 1 to {MAX_BATCH} requests, not {len(message):,}")))
        await self._sink.drain()

    async def refuse(self, error: AgentError) -> None:
        """Answer a line that cannot be read. Returns like `receive`."""
        self._send(refusal(None, error))
        await self._sink.drain()

    async def _begin(self, entry: Any, size: int, deliver: Deliver) -> None:
        try:
            request = read_request(entry)
        except Refused as refused:
            deliver(refused.line)
            return
        if self._requests >= MAX_REQUESTS or self._request_bytes + size > MAX_REQUEST_BYTES:
            deliver(self._failed(request, Busy("too many requests in flight on this connection", retry_after_s=1)))
            return
        self._requests += 1
        self._request_bytes += size
        job = self._nursery.start(self._serve(request, size, deliver), "request")
        if request.method == "initialize":
            # Whoever sends the next request without waiting for the answer means the session that begins here.
            await asyncio.wait((job,))
        else:
            # Its first step now: so requests begin in order, and answers that pile up are seen before more are read.
            await asyncio.sleep(0)

    # ── requests run ─────────────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, request: Request, size: int, deliver: Deliver) -> None:
        line = None
        try:
            line = await self._answer(request)
        except AgentError as error:
            line = self._failed(request, error)
        except asyncio.CancelledError:
            line = self._failed(request, Cancelled("the connection ended before there was an answer"))
            raise
        except Exception:
            _log.exception("%.64r failed", request.method)
            line = self._failed(request, Internal("the server failed to answer; its log says why"))
        finally:
            self._requests -= 1
            self._request_bytes -= size
            deliver(line)

    async def _answer(self, request: Request) -> bytes | None:
        done = await self._perform(request)
        line = None if request.id is None else answer(request.id, done.answer)
        if done.after_seq and (feed := self._feeds.get(self._addressed(request.params))) is not None:
            await feed.sent(done.after_seq)
        return line

    async def _perform(self, request: Request) -> Done:
        match request.method:
            case "initialize":
                return Done(await self._initialize(request.params))
            case "initialized":
                return Done({})
            case _ if self._own is None:
                raise NotInitialized("say `initialize` first")
            case "events/subscribe":
                return Done(self._subscribe(request.params))
            case _:
                return await self._operate(self._own, request)

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._own is not None:
            raise InvalidRequest("this connection is initialized already")
        parse(Initialize, params)
        self._own = session = await self._host.start()
        self._adopt(session)
        return {**asdict(session.info), "server": {"name": "tertulia", "version": __version__}}
