"""The interface of a browser in which a person logs in: it visits a page, and comes back with a code."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class RedirectAnswer(NamedTuple):
    """What the browser brought back from the authorization server."""

    code: str
    state: str | None
    issuer: str | None


class BrowserLogin(Protocol):
    """The browser of a person who is there. Both methods raise McpError where it comes to nothing."""

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server sends the browser afterwards."""
        ...

    async def visit(self, address: str) -> None:
        """Show them this address, which has been checked. Returns at once."""
        ...

    async def answer(self) -> RedirectAnswer:
        """Wait until they come back."""
        ...
