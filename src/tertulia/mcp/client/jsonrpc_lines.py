"""JSON-RPC in lines: theirs into the SDK's messages, the SDK's into ours.

With msgspec, because the SDK's own way takes several times as long. What is no message is dropped here, and so is an
answer to what was never asked. An answer that cannot be read becomes an error, so that its caller waits no longer.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tertulia.errors import ParseError
from tertulia.mcp.client.json_repair import MAX_DEPTH, decode_odd_numbers, read_leniently, repair_result, repair_text
from tertulia.mcp.client.response_id import UNREADABLE, UNREADABLE_PREFIX, answered_id_in_steps, find_response_id
from tertulia.protocol.json_scan import MAX_PARTS, find_excess, find_excess_in_steps

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

SHORT = 64 * 1024
"""Whatever is wrong with a text of so many bytes, it can be mended at once."""
AT_ONCE = 2 << 20
"""So many bytes that are as they should be take msgspec a twentieth of a second at most. Of more, steps are made."""


class MessageProblem(msgspec.Struct):
    """What an answer says that is an error."""

    code: int
    message: str
    data: Any = None


class Envelope(msgspec.Struct):
    """A message: a request, a notification or an answer."""

    jsonrpc: Literal["2.0"]
    id: int | str | None | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: MessageProblem | msgspec.UnsetType = msgspec.UNSET


async def read_long(text: bytes, decode: Callable[[bytes], Envelope]) -> Envelope:
    """The message in a text of any length, mended; the loop is never held for long.

    ParseError or ValueError for what is none; `why_not` says it in words.
    """
    if len(text) <= AT_ONCE:
        if (too_much := await find_excess_in_steps(text, MAX_PARTS, MAX_DEPTH)) is not None:
            raise ParseError(too_much)
        try:
            return decode(text)
        except (ValueError, RecursionError):
            # It may be JSON by its grammar: texts are cut in the middle of a character every day.
            pass
    return msgspec.convert(await read_leniently(text), Envelope)


def why_not(error: Exception) -> str:
    """Why a message cannot be read, for whoever waits for it."""
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


MAX_WITHDRAWN = 1024
"""How many requests that were taken back are remembered, so that their late answers are known as such."""
_log = logging.getLogger(__name__)


class JsonRpcLines:
    """Both directions of one connection. The SDK must be loaded by now."""

    def __init__(self, server: str) -> None:
        from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

        self.dropped: Counter[str] = Counter()
        """What was dropped, and how often."""
        self.version = ""
        """What was agreed on, as soon as it was."""
        self._server = server
        self._error_data = ErrorData
        self._error, self._response = JSONRPCError, JSONRPCResponse
        self._request, self._notification = JSONRPCRequest, JSONRPCNotification
        self._decode = msgspec.json.Decoder(Envelope).decode
        self._asked: set[int | str] = set()
        self._withdrawn: deque[object] = deque(maxlen=MAX_WITHDRAWN)

    async def read_in_steps(self, line: bytes) -> JSONRPCMessage | None:
        """The same as `read`, for a line of any length: the loop is never held for long."""
        if len(line) <= SHORT:
            return self.read(line)
        try:
            heard = await read_long(line, self._decode)
        except (ParseError, ValueError, RecursionError) as error:
            return self._unreadable(await answered_id_in_steps(line), why_not(error))
        return self._message(heard)

    def read(self, line: bytes) -> JSONRPCMessage | None:
        """The message, or an error in place of an answer that cannot be read; None when it was dropped."""
        if (too_much := find_excess(line, MAX_PARTS, MAX_DEPTH)) is not None:
            return self._unreadable(find_response_id(line), f"it has {too_much}")
        try:
            heard = self._heard(line)
        except (ValueError, RecursionError) as error:
            return self._unreadable(find_response_id(line), why_not(error))
        return self._message(heard)

    def convert(self, fields: dict[str, Any]) -> JSONRPCMessage | None:
        """The message in a value that somebody has decoded and looked at; None when it was dropped."""
        try:
            return self._message(msgspec.convert(fields, Envelope))
        except msgspec.ValidationError:
            return self._drop("a line that is no message")

    def _message(self, heard: Envelope) -> JSONRPCMessage | None:
        # `model_construct`: every field has its type already.
        if isinstance(heard.method, str):
            if heard.id is msgspec.UNSET:
                return self._notification.model_construct(jsonrpc="2.0", method=heard.method, params=heard.params)
            if heard.id is None:
                return self._drop("a request without an id")
            return self._request.model_construct(jsonrpc="2.0", id=heard.id, method=heard.method, params=heard.params)
        if not isinstance(heard.id, int | str):
            return self._drop("an answer without an id")
        if heard.id not in self._asked:
            # A server may have answered before it heard that nobody waits any more: that is nobody's fault.
            return None if heard.id in self._withdrawn else self._drop("an answer that nobody waits for")
        if isinstance(heard.result, dict):
            self._asked.discard(heard.id)
            repair_result(heard.result, self.version)
            return self._response.model_construct(jsonrpc="2.0", id=heard.id, result=heard.result)
        if isinstance(heard.error, MessageProblem):
            self._asked.discard(heard.id)
            error = self._error_data(code=heard.error.code, message=heard.error.message, data=heard.error.data)
            return self._error.model_construct(jsonrpc="2.0", id=heard.id, error=error)
        return self._unreadable(heard.id, "it has neither a result nor an error")

    def encode(self, message: JSONRPCMessage) -> bytes:
        """With its newline."""
        if isinstance(message, self._request | self._notification):
            fields: dict[str, Any] = {"jsonrpc": "2.0", "method": message.method}
            if message.params is not None:
                fields["params"] = message.params
            if isinstance(message, self._request):
                fields["id"] = message.id
                self._asked.add(message.id)
            elif message.method == "notifications/cancelled" and message.params is not None:
                withdrawn = message.params.get("requestId", "")
                self._asked.discard(withdrawn)
                self._withdrawn.append(withdrawn)
        else:
            fields = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        return msgspec.json.encode(fields) + b"\n"

    def _heard(self, line: bytes) -> Envelope:
        try:
            return self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # It may be JSON by its grammar: texts are cut in the middle of a character every day, and some languages
            # write NaN. Whoever waits for this answer would wait until its timeout.
            # What is not even text was hardly meant for us.
            line.decode()
            whole = repair_text(line)
        try:
            return self._decode(whole)
        except msgspec.DecodeError as error:
            try:
                return msgspec.convert(decode_odd_numbers(whole), Envelope)
            except ValueError:
                raise error from None

    def _unreadable(self, number: int | str | None, why: str) -> JSONRPCMessage | None:
        """An error in place of the answer to that, so that nobody waits for what will not be read."""
        if number is None or number not in self._asked:
            return self._drop("a line that is no message")
        self._asked.discard(number)
        error = self._error_data(code=UNREADABLE, message=f"{UNREADABLE_PREFIX}{why}")
        return self._error.model_construct(jsonrpc="2.0", id=number, error=error)

    def _drop(self, what: str) -> None:
        self.dropped[what] += 1
        # Once: a server that does it does it all the time.
        if self.dropped[what] == 1:
            _log.warning("mcp server %s: %s was dropped; others like it will be, unmentioned", self._server, what)
