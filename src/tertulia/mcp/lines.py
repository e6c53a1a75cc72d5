"""JSON-RPC in lines: theirs into the SDK's messages, the SDK's into ours.

With msgspec, because the SDK's own way takes several times as long. What is no message is dropped here, and so is an
answer to what was never asked.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tertulia.mcp.mending import MAX_CONTAINERS, MAX_MENDED, is_tangled, mend_result, mended, with_odd_numbers

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

MAX_WITHDRAWN = 1024
"""How many requests that were taken back are remembered, so that their late answers are known as such."""
_INTERNAL = -32603
_log = logging.getLogger(__name__)


class _Error(msgspec.Struct):
    code: int
    message: str
    data: Any = None


class _Numbered(msgspec.Struct):
    id: int | str | None = None


class _Line(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | None | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: _Error | msgspec.UnsetType = msgspec.UNSET


class Lines:
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
        self._decode = msgspec.json.Decoder(_Line).decode
        self._asked: set[int | str] = set()
        self._withdrawn: deque[object] = deque(maxlen=MAX_WITHDRAWN)

    def read(self, line: bytes) -> JSONRPCMessage | None:
        """The message; None when it was dropped."""
        if is_tangled(line):
            return self._tangled(line)
        try:
            heard = self._heard(line)
        except (ValueError, RecursionError):
            return self._drop("a line that is no message")
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
            mend_result(heard.result, self.version)
            return self._response.model_construct(jsonrpc="2.0", id=heard.id, result=heard.result)
        if isinstance(heard.error, _Error):
            self._asked.discard(heard.id)
            error = self._error_data(code=heard.error.code, message=heard.error.message, data=heard.error.data)
            return self._error.model_construct(jsonrpc="2.0", id=heard.id, error=error)
        return self._drop("an answer that says nothing")

    def written(self, message: JSONRPCMessage) -> bytes:
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

    def _heard(self, line: bytes) -> _Line:
        try:
            return self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # It may be JSON by its grammar: texts are cut in the middle of a character every day, and some languages
            # write NaN. Whoever waits for this answer would wait until its timeout.
            if len(line) > MAX_MENDED:
                raise
            # What is not even text was hardly meant for us.
            line.decode()
            whole = mended(line)
        try:
            return self._decode(whole)
        except msgspec.DecodeError:
            return msgspec.convert(with_odd_numbers(whole), _Line)

    def _tangled(self, line: bytes) -> JSONRPCMessage | None:
        """An error in place of an answer, so that nobody waits for what will not be read."""
        try:
            number = msgspec.json.decode(line, type=_Numbered).id
        except (ValueError, RecursionError):
            number = None
        if number is None or number not in self._asked:
            return self._drop("a message of more parts than anybody needs")
        self._asked.discard(number)
        error = self._error_data(code=_INTERNAL, message=f"the answer has more than {MAX_CONTAINERS:,} parts")
        return self._error.model_construct(jsonrpc="2.0", id=number, error=error)

    def _drop(self, what: str) -> None:
        self.dropped[what] += 1
        # Once: a server that does it does it all the time.
        if self.dropped[what] == 1:
            _log.warning("mcp server %s: %s was dropped; others like it will be, unmentioned", self._server, what)
