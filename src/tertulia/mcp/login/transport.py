"""Puts the token of a login on each request to a server, and asks for another one where it is refused.

A request is sent again with the new token: once where a person was asked, else twice, because the token that another
process left may be refused as well. Imports the SDK's HTTP library, so it is itself imported late.
"""

from __future__ import annotations

import httpx2

from tertulia.mcp.login.server_login import ServerLogin

MAX_ANSWER = 1 << 20
"""Bytes of an answer to a request of the login itself."""
_UNAUTHORIZED, _FORBIDDEN = 401, 403


class LoginTransport(httpx2.AsyncBaseTransport):
    """Between the connection and the network. Raises McpError where a person has to log in."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.login: ServerLogin
        """Set by the one that makes it: the login sends its own requests with `send_alone`."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request whose body has been read."""
        sent = await self.login.token()
        response = await self._send(request, sent)
        for _ in range(1 if self.login.asks_person else 2):
            if not _wants_other_token(response):
                break
            await response.aclose()
            response.request = request
            sent = await self.login.after_refusal(response, sent)
            response = await self._send(request, sent)
        return response

    async def send_alone(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the login. What is too long is answered as if it were empty."""
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        body = bytearray()
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        try:
            async for piece in stream:
                body += piece
                if len(body) > MAX_ANSWER:
                    body.clear()
                    break
        finally:
            await stream.aclose()
        return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body), request=request)

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._inner.aclose()

    async def _send(self, request: httpx2.Request, token: str | None) -> httpx2.Response:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        return await self._inner.handle_async_request(request)


def _wants_other_token(response: httpx2.Response) -> bool:
    if response.status_code == _UNAUTHORIZED:
        return True
    challenge = response.headers.get("www-authenticate", "")
    return response.status_code == _FORBIDDEN and "insufficient_scope" in challenge
