"""`web_search`: the provider searches. Here is only the definition that a conversation is offered."""

from __future__ import annotations

from typing import Any

from tertulia.errors import UnsupportedByBackendError
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.tool import CallContext, Outcome, ReadingTool


class WebSearch(ReadingTool):
    """A tool that runs at the provider's. A wire whose API has none leaves it out."""

    __slots__ = ()
    spec = ToolSpec.define("web_search", "Search the web.", kind="hosted")

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse the call: the provider runs this tool."""
        raise UnsupportedByBackendError("web_search runs at the provider's; it cannot be called")

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Never reached: every call is refused."""
        raise UnsupportedByBackendError("web_search runs at the provider's; it cannot be called")
