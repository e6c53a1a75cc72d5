"""JSON-RPC 2.0 with one client, in both directions: its requests are carried out, and it can be asked in turn.

Every surface that speaks JSON-RPC uses this: app-server and WebSocket, ACP, Codex. Knows no method and no transport:
lines come in by `receive`, messages go out through a `Sink`. What differs between the protocols is their `RpcDialect`.

Not the connection of ACP's SDK: it drops in silence what it cannot read, and answers a fault of ours with its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidRequestError, ParseError, TertuliaError
from tertulia.protocol.json_steps import encode_long
from tertulia.protocol.line_framing import Line, release_line
from tertulia.protocol.records import has_long_text
from tertulia.protocol.storage import StoragePolicy
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.messages import RequestId, RequestRefusal, RpcRequest, read_request
from tertulia.server.jsonrpc.request_runner import (
    BatchResponse,
    MethodHandler,
    RequestRunner,
    ResponseCallback,
    RpcDialect,
    default_policy,
)
from tertulia.server.jsonrpc.strict_json import decode_json, find_unencodable

_HEAD = b'{"jsonrpc":"2.0",'
_WITHOUT_ID = _HEAD + b'"id":null,'
_DEFAULT = RpcDialect()
_encode = msgspec.json.Encoder().encode


class Peer:
    """One client, from its first line to its last.

    Each of its requests gets exactly one response, whatever happens to it, and a notification none. Requests begin in
    the order they came and run side by side. A client that does not read its responses is not read either.
    """

    def __init__(
        self,
        sink: Sink,
        serve: MethodHandler,
        dialect: RpcDialect = _DEFAULT,
        policy: Callable[[], StoragePolicy] = default_policy,
    ) -> None:
        """`policy`: the storage policy that the log has to obey now."""
        self._dialect = dialect
        self._sink = sink
        self._ids = count()
        self._questions: dict[int, asyncio.Future[Any]] = {}
        """Requests to the client that wait for its response."""
        self._is_silent = False
        """The client responds to nothing any more."""
        self._is_gone = False
        self.requests = RequestRunner(serve, dialect, policy)
        self.idle = self.requests.idle

    # ── requests of the client ────────────────────────────────────────────────────────────────────────────────────

    async def receive(self, line: Line) -> None:
        """Take one message. Returns when the next one may be given, and not before."""
        size = len(line)
        try:
            message = await decode_json(line)
        except ParseError as error:
            await self.refuse(error)
            return
        finally:
            release_line(line)
        if isinstance(message, list):
            await self._begin_batch(cast("list[Any]", message), size)
        elif isinstance(message, dict) and self._is_response(fields := cast("dict[str, Any]", message)):
            self._settle(fields)
        else:
            await self._begin(message, size, self._send)
        # A request may take long, and so may a client that does not read: what it said is not held meanwhile.
        del message
        await self._sink.drain()

    async def refuse(self, error: TertuliaError) -> None:
        """Answer a message that cannot be read. Returns like `receive`."""
        self._send(self._dialect.error(None, error))
        await self._sink.drain()

    async def _begin_batch(self, entries: list[Any], size: int) -> None:
        most = self._dialect.max_batch
        if 0 < len(entries) <= most:
            response = BatchResponse(len(entries), self._send)
            for entry in entries:
                await self._begin(entry, size // len(entries), response.add)
            return
        allowed = f"a batch has 1 to {most} requests, not {len(entries):,}"
        none = "there are no batches here: send one object a line"
        self._send(self._dialect.error(None, InvalidRequestError(allowed if most else none)))

    async def _begin(self, entry: Any, size: int, deliver: ResponseCallback) -> None:
        try:
            request = read_request(_with_jsonrpc_member(entry) if self._dialect.bare else entry)
        except RequestRefusal as refused:
            deliver(None if refused.line is None else self._dialect.error(refused.id, refused.error))
            return
        await self.requests.begin(request, size, deliver)

    def find_request(self, id: RequestId) -> RpcRequest | None:
        """A request of the client's that is not answered yet."""
        return self.requests.find(id)

    def cancel(self, id: RequestId) -> None:
        """Stop a request of the client's, and answer that it was cancelled."""
        self.requests.cancel(id)

    # ── requests to the client ────────────────────────────────────────────────────────────────────────────────

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification to the client."""
        if not self._is_gone:
            self._sink.send((encode_notification(method, params, bare=self._dialect.bare),))

    def new_id(self) -> int:
        """An id for a request to the client."""
        return next(self._ids)

    async def ask(self, method: str, params: dict[str, Any], id: int | None = None) -> dict[str, Any] | None:
        """The result of a request to the client; None for an error, for nonsense, and where the client is gone."""
        if self._is_silent:
            return None
        id = self.new_id() if id is None else id
        future = self._questions[id] = asyncio.get_running_loop().create_future()
        self._send(_encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        try:
            return await future
        except asyncio.CancelledError:
            if self._dialect.withdraw is not None:
                self.notify(self._dialect.withdraw, {"requestId": id})
            raise
        finally:
            self._questions.pop(id, None)

    def _is_response(self, message: dict[str, Any]) -> bool:
        """Deliver a response, even one without a result: else the request would wait for ever."""
        if not self._dialect.asks_client or "method" in message or "id" not in message:
            return False
        # A client without `jsonrpc` members gets no answer to a message that makes no sense, see `_send`.
        bare = self._dialect.bare
        return bare or "result" in message or "error" in message or self._question(message["id"]) is not None

    def _question(self, id: Any) -> asyncio.Future[Any] | None:
        # By its type too: True is equal to 1.
        return self._questions.get(id) if type(id) is int else None

    def _settle(self, message: dict[str, Any]) -> None:
        future, result = self._question(message["id"]), message.get("result")
        # A response that comes late, or to no request of ours, changes nothing.
        if future is not None and not future.done():
            is_usable = isinstance(result, dict) and find_unencodable(cast("dict[str, Any]", result)) is None
            future.set_result(cast("dict[str, Any]", result) if is_usable else None)

    def _send(self, line: bytes | None) -> None:
        if line is None:
            # A sink that gathers events waits for the response to take them along: there is none.
            self._sink.send(())
        elif self._dialect.bare and line.startswith(_WITHOUT_ID):
            # Such a client knows no response without an id. What was wrong with it may be the client's own words.
            self.requests.warn("unreadable", "a message could not be read, and was not answered")
        elif not self._is_gone:
            self._sink.send((strip_jsonrpc_member(line) if self._dialect.bare else line,))

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def stop_asking(self) -> None:
        """The client responds to nothing any more: every request to it, now and later, returns None."""
        self._is_silent = True
        for future in self._questions.values():
            if not future.done():
                future.set_result(None)

    async def close(self, timeout_s: float) -> None:
        """Wait at most so long until what still runs is answered, then send nothing more."""
        self.stop_asking()
        await self.requests.close(timeout_s)
        self._is_gone = True


def encode_notification(method: str, params: dict[str, Any], *, bare: bool = False) -> bytes:
    """One message without a response. `bare`: without the `jsonrpc` member too."""
    message = {"method": method, "params": params} if bare else {"jsonrpc": "2.0", "method": method, "params": params}
    return encode_long(message) if has_long_text(params) else _encode(message)


def strip_jsonrpc_member(line: bytes) -> bytes:
    """A message of ours without its `jsonrpc` member, which always comes first."""
    return b"{%b" % memoryview(line)[len(_HEAD) :] if line.startswith(_HEAD) else line


def _with_jsonrpc_member(message: Any) -> Any:
    return {"jsonrpc": "2.0", **cast("dict[str, Any]", message)} if isinstance(message, dict) else message
