"""What may be a message of MCP: told before the SDK sees it, which answers with a page of findings, or not at all."""

from __future__ import annotations

from typing import Any, cast

from tertulia.errors import InvalidRequestError
from tertulia.server.http.guard import DECODED_BODY, App, HttpRefusal, Receive, Scope, Send
from tertulia.server.jsonrpc.messages import RequestRefusal, encode_error, read_request


def refuse_non_messages(app: App) -> App:
    """Behind the guard: what is none is refused here, and `app` does not see it."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if DECODED_BODY in scope:
                # Not kept: a call may take long, and what it says may be large.
                check_message(scope.pop(DECODED_BODY))
        except RequestRefusal as refused:
            error = refused.error
            # Even where none would be due: over HTTP there always is an answer.
            line = refused.line or encode_error(None, error)
            await HttpRefusal(400, error.code, error.message, line).answer(scope, send)
        else:
            # We keep no stream that could be taken up again. The SDK, asked for that, would say nothing at all.
            headers = [pair for pair in scope["headers"] if pair[0].lower() != b"last-event-id"]
            await app({**scope, "headers": headers}, receive, send)

    return checked


def check_message(message: Any, *, answers: bool = True) -> None:
    """Raises Refused, with one sentence. `answers`: whether those to requests of ours are looked at too."""
    if isinstance(message, list):
        # One version of the protocol had batches (2025-03-26), no later one has.
        raise RequestRefusal(InvalidRequestError("batches are not accepted here; send one message at a time"), None)
    if not isinstance(message, dict):
        raise RequestRefusal(InvalidRequestError("a message is an object"), None)
    fields = cast("dict[str, Any]", message)
    if "method" not in fields and "id" in fields:
        if answers and not _is_answer(fields):
            raise RequestRefusal(
                InvalidRequestError("an answer has the id of a request, and a result or an error"), None
            )
        return
    request = read_request(fields)
    if isinstance(request.id, float):
        # Legal elsewhere. The SDK would take it for a notification, which is not answered.
        raise RequestRefusal(InvalidRequestError("an id is an integer or a text"), None)


def _is_answer(fields: dict[str, Any]) -> bool:
    if fields.get("jsonrpc") != "2.0" or ("result" in fields) == ("error" in fields):
        return False
    if "result" in fields:
        return _is_id(fields["id"]) and isinstance(fields["result"], dict)
    error = fields["error"]
    return (
        (fields["id"] is None or _is_id(fields["id"]))
        and isinstance(error, dict)
        and type(cast("dict[str, Any]", error).get("code")) is int
        and isinstance(cast("dict[str, Any]", error).get("message"), str)
    )


def _is_id(id: object) -> bool:
    return isinstance(id, str) or type(id) is int
