"""A person whose browser agrees to everything, as the authorization servers of the conformance suite expect it."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx2

from tertulia.mcp.login.browser import RedirectAnswer
from tests.deadlines import HANG_S


class AgreeingBrowser:
    """Implements `BrowserLogin`. `visited` are the addresses."""

    redirect_uri = "http://127.0.0.1:3030/callback"

    def __init__(self) -> None:
        self.visited: list[str] = []
        self._answer = RedirectAnswer("", None, None)

    async def visit(self, address: str) -> None:
        """Follow the address, and note where it leads."""
        self.visited.append(address)
        async with httpx2.AsyncClient(follow_redirects=False, timeout=HANG_S, trust_env=False) as browser:
            response = await browser.get(address)
        fields = parse_qs(urlsplit(response.headers["location"]).query)
        code, state, issuer = (fields.get(name, [None])[0] for name in ("code", "state", "iss"))
        self._answer = RedirectAnswer(code or "", state, issuer)

    async def answer(self) -> RedirectAnswer:
        """What the last visit brought."""
        return self._answer
