"""What is worth telling on the way."""

from __future__ import annotations

import pytest

from tertulia.cli.exec.warning_text import warning_text
from tertulia.protocol.events import (
    AgentMessage,
    BackgroundEvent,
    ConversationCloseForced,
    EventData,
    SubscriberLagged,
    WarningEvent,
)
from tertulia.protocol.ids import ItemId
from tertulia.protocol.tool_events import McpServerStatus, McpToolsChanged


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (WarningEvent("no model", "no_model"), "no model"),
        (WarningEvent(""), "[not stored]"),
        (BackgroundEvent("sandbox: narrowed"), "sandbox: narrowed"),
        (McpServerStatus("fs", "failed", "no such file"), "MCP server fs is failed: no such file"),
        (McpServerStatus("fs", "ready"), None),
        (McpToolsChanged(["fs__a"], ["fs__b"], []), None),
        (
            McpToolsChanged([], [], ["fs__a", "fs__b"]),
            "not what was shown before, and withheld: fs__a, fs__b; `tertulia mcp refresh` takes them as they are now",
        ),
        (ConversationCloseForced(10.0), "the task did not stop within 10 s and was abandoned"),
        (SubscriberLagged(3, 9, 0), "events 3 to 9 were missed"),
        (SubscriberLagged(None, None, 5), None),
        (AgentMessage("hello", ItemId("1")), None),
    ],
)
def test_a_notice_is_a_sentence(data: EventData, sentence: str | None) -> None:
    assert warning_text(data) == sentence


def test_of_many_tools_that_are_withheld_only_some_are_named() -> None:
    assert "withheld: a, b, c, d, e, f, g, h, i, j, …;" in str(
        warning_text(McpToolsChanged([], [], list("abcdefghijkl")))
    )
