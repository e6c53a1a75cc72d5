"""What is worth telling on the way."""

from __future__ import annotations

import pytest

from tertulia.apps.notices import notice
from tertulia.protocol.events import (
    AgentMessage,
    BackgroundEvent,
    ConversationCloseForced,
    EventData,
    SubscriberLagged,
    Warning,
)
from tertulia.protocol.ids import ItemId
from tertulia.protocol.tool_events import McpServerStatus


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (Warning("no model", "no_model"), "no model"),
        (BackgroundEvent("sandbox: narrowed"), "sandbox: narrowed"),
        (McpServerStatus("fs", "failed", "no such file"), "MCP server fs is failed: no such file"),
        (McpServerStatus("fs", "ready"), None),
        (ConversationCloseForced(10.0), "the task did not stop within 10 s and was abandoned"),
        (SubscriberLagged(3, 9, 0), "events 3 to 9 were missed"),
        (SubscriberLagged(None, None, 5), None),
        (AgentMessage("hello", ItemId("1")), None),
    ],
)
def test_a_notice_is_a_sentence(data: EventData, sentence: str | None) -> None:
    assert notice(data) == sentence
