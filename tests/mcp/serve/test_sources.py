"""What is served from behind the broker: a conversation's tools do what the interface says."""

from __future__ import annotations

from tertulia.mcp.serve.sources import ServedTool, ToolSource
from tertulia.mcp.server_connection import ToolHints
from tertulia.session.mcp.served_tools import ServedConversation


def test_a_conversations_tools_can_be_served() -> None:
    served: type[ToolSource] = ServedConversation
    assert {"tools", "call", "watch"} <= set(dir(served))


def test_a_tool_of_which_nothing_is_said_may_do_the_worst() -> None:
    """Issue 8, item 5: hints never widen anything, and none says nothing good."""
    assert ServedTool("x", "", "{}").hints == ToolHints(read_only=False, destructive=True, open_world=True)
