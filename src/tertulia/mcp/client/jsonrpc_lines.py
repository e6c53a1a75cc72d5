"""JSON-RPC messages as lines of JSON: decoded into the SDK's types, and encoded from them.

With msgspec, because the SDK's own decoding takes several times as long. A line that is no message is dropped, and so
is a response to no request. A response that cannot be decoded becomes an error, so that its caller waits no longer.
Long lines are decoded in steps, so that they do not hold up the loop. `MessageReader` and `MessageStream` are the form
in which the SDK wants the two ends of a connection.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import msgspec

from tertulia.errors import ParseError
from tertulia.mcp.client.error_text import UNREADABLE, UNREADABLE_PREFIX
from tertulia.mcp.client.json_repair import (
    MAX_DEPTH,
    answered_id_in_steps,
    decode_odd_numbers,
    find_response_id,
    read_leniently,
    repair_result,
    repair_text,
)
from tertulia.protocol.json_scan import MAX_PARTS, find_excess, find_excess_in_steps

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

SHORT = 64 * 1024
"""A text of so many bytes can be repaired in one step, whatever is wrong with it."""
AT_ONCE = 2 << 20
"""msgspec decodes so many valid bytes in a twentieth of a second at most. More are decoded in steps."""
MAX_CANCELLED = 1024
"""How many cancelled requests are remembered, so that their late responses are recognised."""
DROPPED_RESPONSE = "a response to no request"
"""A kind of dropped message."""
T = TypeVar("T")
_log = logging.getLogger(__name__)
OnLost = Callable[[str], None]
"""Called with the reason when the connection ended by itself."""


class MessageProblem(msgspec.Struct):
    """The error of a response."""

    code: int
    message: str
    data: Any = None


class Envelope(msgspec.Struct):
    """A message: a request, a notification or a response."""

    jsonrpc: Literal["2.0"]
    id: int | str | None | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: MessageProblem | msgspec.UnsetType = msgspec.UNSET


async def read_long(text: bytes, decode: Callable[[bytes], Envelope]) -> Envelope:
    """The message in a text of any length, repaired; the loop is never held up for long.

    ParseError or ValueError for a text that is no message; `why_not` says why.
    """
    if len(text) <= AT_ONCE:
        if (too_much := await find_excess_in_steps(text, MAX_PARTS, MAX_DEPTH)) is not None:
            raise ParseError(too_much)
        try:
            return decode(text)
        except (ValueError, RecursionError):
            # It may still be JSON that can be repaired: servers cut texts in the middle of a character.
            pass
    return msgspec.convert(await read_leniently(text), Envelope)


def why_not(error: Exception) -> str:
    """Why a message cannot be read, for the caller that waits for it."""
    match error:
        case msgspec.ValidationError():
            return "it is not what JSON-RPC calls an answer"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case ParseError(message=words) if words.startswith("not UTF-8"):
            return "it is not UTF-8"
        case ParseError(message=words) if words.startswith("it takes"):
            return words
        case ParseError(message=words) if not words.startswith("not JSON"):
            return f"it has {words}"
        case _:
            return "it is not JSON"


class JsonRpcLines:
    """Both directions of one connection. The SDK must be loaded."""

    def __init__(self, server: str) -> None:
        from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

        self.dropped: Counter[str] = Counter()
        """How many messages were dropped, by kind."""
        self.version = ""
        """The protocol version, as soon as it is agreed on."""
        self._server = server
        self._error_data = ErrorData
        self._error, self._response = JSONRPCError, JSONRPCResponse
        self._request, self._notification = JSONRPCRequest, JSONRPCNotification
        self._decode = msgspec.json.Decoder(Envelope).decode
        self._requests: set[int | str] = set()
        self._cancelled: deque[object] = deque(maxlen=MAX_CANCELLED)

    async def read_in_steps(self, line: bytes) -> JSONRPCMessage | None:
        """The same as `read`, for a line of any length: the loop is never held up for long."""
        if len(line) <= SHORT:
            return self.read(line)
        try:
            envelope = await read_long(line, self._decode)
        except (ParseError, ValueError, RecursionError) as error:
            return self._unreadable(await answered_id_in_steps(line), why_not(error))
        return self._message(envelope)

    def read(self, line: bytes) -> JSONRPCMessage | None:
        """The message, or an error in place of a response that cannot be decoded; None when it was dropped."""
        if (too_much := find_excess(line, MAX_PARTS, MAX_DEPTH)) is not None:
            return self._unreadable(find_response_id(line), f"it has {too_much}")
        try:
            envelope = self._decode_leniently(line)
        except (ValueError, RecursionError) as error:
            return self._unreadable(find_response_id(line), why_not(error))
        return self._message(envelope)

    def convert(self, fields: dict[str, Any]) -> JSONRPCMessage | None:
        """The message in a value that was decoded and checked already; None when it was dropped."""
        try:
            return self._message(msgspec.convert(fields, Envelope))
        except msgspec.ValidationError:
            return self._drop("a line that is no message")

    def _message(self, envelope: Envelope) -> JSONRPCMessage | None:
        # `model_construct`: every field has its type already.
        if isinstance(envelope.method, str):
            if envelope.id is msgspec.UNSET:
                return self._notification.model_construct(jsonrpc="2.0", method=envelope.method, params=envelope.params)
            if envelope.id is None:
                return self._drop("a request without an id")
            return self._request.model_construct(
                jsonrpc="2.0", id=envelope.id, method=envelope.method, params=envelope.params
            )
        if not isinstance(envelope.id, int | str):
            return self._drop("a response without an id")
        if envelope.id not in self._requests:
            # A server may have answered before it received the cancellation.
            return None if envelope.id in self._cancelled else self._drop(DROPPED_RESPONSE)
        if isinstance(envelope.result, dict):
            self._requests.discard(envelope.id)
            repair_result(envelope.result, self.version)
            return self._response.model_construct(jsonrpc="2.0", id=envelope.id, result=envelope.result)
        if isinstance(envelope.error, MessageProblem):
            self._requests.discard(envelope.id)
            error = self._error_data(code=envelope.error.code, message=envelope.error.message, data=envelope.error.data)
            return self._error.model_construct(jsonrpc="2.0", id=envelope.id, error=error)
        return self._unreadable(envelope.id, "it has neither a result nor an error")

    def encode(self, message: JSONRPCMessage) -> bytes:
        """The message as a line, with its newline; remembers requests, to recognise their responses."""
        if isinstance(message, self._request | self._notification):
            fields: dict[str, Any] = {"jsonrpc": "2.0", "method": message.method}
            if message.params is not None:
                fields["params"] = message.params
            if isinstance(message, self._request):
                fields["id"] = message.id
                self._requests.add(message.id)
            elif message.method == "notifications/cancelled" and message.params is not None:
                cancelled = message.params.get("requestId", "")
                self._requests.discard(cancelled)
                self._cancelled.append(cancelled)
        else:
            fields = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        return msgspec.json.encode(fields) + b"\n"

    def _decode_leniently(self, line: bytes) -> Envelope:
        try:
            return self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # It may still be JSON that can be repaired: servers cut texts in the middle of a character, and some
            # languages write NaN. Without repair the caller would wait until its timeout.
            # What is not UTF-8 is hardly a message.
            line.decode()
            whole = repair_text(line)
        try:
            return self._decode(whole)
        except msgspec.DecodeError as error:
            try:
                return msgspec.convert(decode_odd_numbers(whole), Envelope)
            except ValueError:
                raise error from None

    def _unreadable(self, request_id: int | str | None, why: str) -> JSONRPCMessage | None:
        """An error in place of the response to that request, so that its caller waits no longer."""
        if request_id is None or request_id not in self._requests:
            return self._drop("a line that is no message")
        self._requests.discard(request_id)
        error = self._error_data(code=UNREADABLE, message=f"{UNREADABLE_PREFIX}{why}")
        return self._error.model_construct(jsonrpc="2.0", id=request_id, error=error)

    def _drop(self, what: str) -> None:
        self.dropped[what] += 1
        # Once: a server that does it goes on doing it.
        if self.dropped[what] == 1:
            _log.warning("mcp server %s: %s was dropped; others like it will be, unmentioned", self._server, what)


class MessageStream:
    """An end of a connection; leaving its block closes it."""

    async def aclose(self) -> None:
        """Close it; nothing is read or written after."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageReader(MessageStream, Generic[T]):
    """The end that the SDK reads."""

    async def receive(self) -> T:
        """The next message; anyio's EndOfStream after the last."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None
