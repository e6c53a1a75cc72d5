"""What is answered to a request that is refused."""

from __future__ import annotations

from typing import Any

from tertulia.server.http.refusal import HttpRefusal


async def answered(scope: dict[str, Any], refusal: HttpRefusal) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await refusal.answer(scope, send)
    return sent


async def test_a_request_gets_the_status_and_a_sentence() -> None:
    start, body = await answered({"type": "http"}, HttpRefusal(403, "foreign_origin", "no"))
    assert start["status"] == 403
    assert body["body"] == b'{"error":{"code":"foreign_origin","message":"no"}}'
    assert (b"content-length", b"%d" % len(body["body"])) in start["headers"]
    assert not any(name == b"www-authenticate" for name, _ in start["headers"])


async def test_a_missing_token_says_how_to_bring_one() -> None:
    """D1."""
    start, _ = await answered({"type": "http"}, HttpRefusal(401, "unauthorized", "no"))
    assert (b"www-authenticate", b"Bearer") in start["headers"]


async def test_a_websocket_is_refused_with_the_same_where_the_server_can_and_closed_where_it_cannot() -> None:
    """D1: over an upgrade too."""
    able = {"type": "websocket", "extensions": {"websocket.http.response": {}}}
    start, body = await answered(able, HttpRefusal(401, "unauthorized", "no"))
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert body["type"] == "websocket.http.response.body"
    assert await answered({"type": "websocket"}, HttpRefusal(401, "unauthorized", "no")) == [
        {"type": "websocket.close", "code": 1008}
    ]
