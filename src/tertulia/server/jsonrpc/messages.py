"""The envelopes of JSON-RPC 2.0: what makes a request, and how answers, refusals and events are written.

Knows no operation and no connection.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from tertulia.errors import (
    BusyError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    NotInitializedError,
    ParseError,
    TertuliaError,
)
from tertulia.protocol.events import Event
from tertulia.protocol.json_steps import encode_json, encode_long
from tertulia.protocol.records import has_long_text
from tertulia.server.jsonrpc.strict_json import find_unencodable

RequestId = str | int | float
MAX_ID = 4_096
"""Characters of an id that is a text: it is repeated in the answer, and kept until then."""

DEFAULT_NUMBER = -32000
ERROR_NUMBERS: dict[type[TertuliaError], int] = {
    ParseError: -32700,
    InvalidRequestError: -32600,
    MethodNotFoundError: -32601,
    InvalidParamsError: -32602,
    BusyError: -32001,
    NotInitializedError: -32002,
}
_encode = msgspec.json.Encoder().encode


class RpcRequest(msgspec.Struct, frozen=True):
    """A request or notification of a client."""

    method: str
    params: dict[str, Any]
    id: RequestId | None
    """None: a notification, which is not answered."""


class RequestRefusal(Exception):
    """An entry that is not a request, or not one that could be carried out."""

    def __init__(self, error: TertuliaError, id: RequestId | None, *, silent: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = id
        self.line = None if silent else encode_error(id, error)
        """What to answer; None: it was a notification."""


def read_request(entry: Any) -> RpcRequest:
    """The request in a decoded value; raises RequestRefusal, under the request's id as far as it has a legal one."""
    if not isinstance(entry, dict):
        raise RequestRefusal(InvalidRequestError("a request is an object"), None)
    fields = cast("dict[str, Any]", entry)
    id = _request_id(fields)
    if fields.get("jsonrpc") != "2.0":
        raise RequestRefusal(InvalidRequestError('a request says "jsonrpc": "2.0"'), id)
    method = fields.get("method")
    if not isinstance(method, str) or find_unencodable(method):
        raise RequestRefusal(InvalidRequestError("a request names its method, in valid Unicode"), id)
    return RpcRequest(method, _params(fields, id), id)


def _request_id(fields: dict[str, Any]) -> RequestId | None:
    if "id" not in fields:
        return None
    id = fields["id"]
    # An integer of any length can be repeated; only what is inside of params has to fit 64 bits.
    if isinstance(id, bool) or not isinstance(id, str | int | float) or (isinstance(id, str) and find_unencodable(id)):
        raise RequestRefusal(InvalidRequestError("an id is a number or a text in valid Unicode"), None)
    if isinstance(id, str) and len(id) > MAX_ID:
        raise RequestRefusal(InvalidRequestError(f"an id has at most {MAX_ID:,} characters"), None)
    return id


def _params(fields: dict[str, Any], id: RequestId | None) -> dict[str, Any]:
    params = fields.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise RequestRefusal(
            InvalidParamsError("params must be an object: parameters go by name"), id, silent=id is None
        )
    if (finding := find_unencodable(params)) is not None:
        raise RequestRefusal(InvalidParamsError(f"params contain {finding}"), id, silent=id is None)
    return cast("dict[str, Any]", params)


def encode_result(id: RequestId, result: Any) -> bytes:
    """The answer to a request."""
    # At once and not in parts: a long text is in memory once more, and not twice.
    return _encode({"jsonrpc": "2.0", "id": msgspec.Raw(_echo(id)), "result": result})


async def encode_any_result(id: RequestId, result: Any) -> bytes:
    """The same in steps where a text in it is long; else no other task runs meanwhile."""
    if not has_long_text(result):
        return encode_result(id, result)
    return await encode_json(result, before=b'{"jsonrpc":"2.0","id":%b,"result":' % _echo(id), after=b"}")


def encode_error(id: RequestId | None, error: TertuliaError, number: int | None = None) -> bytes:
    """The answer to a request that failed, or to a line that cannot be answered by id. `number`: not our own."""
    fields = {
        "code": ERROR_NUMBERS.get(type(error), DEFAULT_NUMBER) if number is None else number,
        "message": error.message,
        "data": {**error.detail, "code": error.code},
    }
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_echo(id), _encode(fields))


def encode_batch(answers: list[bytes]) -> bytes:
    """Several responses as one message."""
    return b"[%b]" % b",".join(answers)


def encode_event(event: Event) -> bytes:
    """An event on its way."""
    if event.is_long:
        return encode_long({"jsonrpc": "2.0", "method": "event", "params": event})
    return b'{"jsonrpc":"2.0","method":"event","params":%b}' % event.json()


def _echo(id: RequestId | None) -> bytes:
    # msgspec writes no integer beyond 64 bits.
    return b"%d" % id if isinstance(id, int) else _encode(id)
