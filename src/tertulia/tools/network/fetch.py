"""`fetch`: reads one page of the web as text, under the rules of hosts that hold for the conversation's commands.

Only GET; no cookies, no credentials, nothing of the environment. Each address that a page leads to is checked anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tertulia.errors import InvalidParamsError
from tertulia.tools.tool import CallContext, Outcome, ReadingTool, Result, define_tool

if TYPE_CHECKING:
    from tertulia.tools.command_environment import CommandEnvironment

_SPEC = define_tool(
    "fetch",
    "Reads a page of the web: its text, without markup. Only GET, and only from hosts that this conversation may "
    "reach.",
    {"url": {"type": "string", "description": "Its address, http:// or https://."}},
    ["url"],
)


class Fetch(ReadingTool):
    """A tool that only reads. What it does not reach says how the user can allow it."""

    __slots__ = ("_place",)
    spec = _SPEC

    def __init__(self, place: CommandEnvironment) -> None:
        self._place = place

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what is no address of a page, and a conversation without a network."""
        from tertulia.tools.network.web_page import parse_url

        parse_url(arguments["url"])
        if call.rights.network is False:
            raise InvalidParamsError(
                "this conversation has no network; the user can allow hosts with the setting network = {allow = […]}"
            )

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Get the page and return its text."""
        from tertulia.tools.network.web_page import fetch_page

        gate = self._place.page_gate(call)
        with call.unhurried():
            page = await fetch_page(arguments["url"], gate)
        return Result(page.text(), success=page.status < 400, truncated=page.truncated)
