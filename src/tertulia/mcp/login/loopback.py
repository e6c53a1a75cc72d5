"""Where the browser comes back to after a login: a listener on this machine that takes one answer.

Implements `BrowserLogin`. Requests that do not carry the state of this login are refused and change nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from tertulia.errors import McpError
from tertulia.mcp.login.browser import RedirectAnswer
from tertulia.policy.display_text import make_display_text

_PATH = "/callback"
_REQUEST_S = 5.0
_MAX_REQUEST = 16_384
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>Tertulia</title><style>body{font:16px/1.5 system-ui;margin:20vh auto;"
    "max-width:28em;text-align:center}</style><h1>%s</h1><p>You can close this page.</p>"
)


class LoopbackBrowser:
    """A browser on this machine, or one whose port leads here."""

    def __init__(self, port: int, show: Callable[[str], None], *, within_s: float) -> None:
        """
        Args:
            port: Where to listen; 0: any free port. Where it is taken, another one.
            show: Shows them the address, or opens it.
            within_s: How long they have.
        """
        self._port, self._show, self._within_s = port, show, within_s
        self._server: asyncio.Server | None = None
        self._state = ""
        self._answered: asyncio.Future[RedirectAnswer] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> LoopbackBrowser:
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=_MAX_REQUEST)
        except OSError:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MAX_REQUEST)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        """The address of the listener."""
        return f"http://127.0.0.1:{self._port}{_PATH}"

    async def visit(self, address: str) -> None:
        """Show the person where to log in."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        self._show(address)

    async def answer(self) -> RedirectAnswer:
        """Wait until their browser comes back; McpError where it does not, or brings a refusal."""
        try:
            async with asyncio.timeout(self._within_s):
                return await self._answered
        except TimeoutError:
            raise McpError(f"no browser came back within {self._within_s:g} s; nothing was kept") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, title = self._take(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
                page = (_PAGE % title).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
                    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
                    "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                    + page
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Some other program of this machine: it gets no page.
            return
        finally:
            writer.close()

    def _take(self, line: str) -> tuple[str, str]:
        """Status and title for a request; the first good one is the answer."""
        method, _, rest = line.partition(" ")
        parts = urlsplit(rest.partition(" ")[0])
        fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if method != "GET" or parts.path != _PATH:
            return "404 Not Found", "There is nothing here"
        if not self._state or not secrets.compare_digest(fields.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This belongs to another login"
        if self._answered.done():
            return "200 OK", "This login is over"
        if "code" not in fields:
            word = make_display_text(fields.get("error", "no code"), max_characters=60).text
            self._answered.set_exception(McpError(f"the login was refused: {word}; nothing was kept"))
            return "200 OK", "The login was refused"
        self._answered.set_result(RedirectAnswer(fields["code"], fields["state"], fields.get("iss")))
        return "200 OK", "You are logged in"
