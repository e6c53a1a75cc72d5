"""What was said before, told again."""

from __future__ import annotations

from acp import schema as s

from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
)
from tertulia.server.acp.tool_calls import AcpToolCalls
from tertulia.server.acp.updates import updates_from_history

CONVERSATION = ConversationId("talk")


def test_every_kind_of_item_is_told_in_order_and_in_the_schemas_words() -> None:
    """Issue 10 (4): session/load."""
    pictures = (ImagePart("data:image/png;base64,AAAA"), ImagePart("https://example.com/a.png"))
    items: list[Item] = [
        UserMessage(ItemId("seed"), (TextPart("<environment>"),), injected=True),
        Summary(ItemId("s"), "we met", 4),
        UserMessage(ItemId("u"), (TextPart("look"), *pictures)),
        Reasoning(ItemId("r"), "hm"),
        Reasoning(ItemId("sealed"), ""),
        ToolCall(ItemId("c"), CallId("1"), "shell", '{"command": ["ls"]}'),
        ToolCall(ItemId("p"), CallId("2"), "update_plan", "{}"),
        ToolOutput(ItemId("o"), CallId("1"), (TextPart("a.py"),)),
        ToolOutput(ItemId("q"), CallId("2"), (TextPart("ok"),)),
        AssistantMessage(ItemId("a"), (TextPart("seen"),)),
    ]
    told = list(
        updates_from_history(
            items, CONVERSATION, AcpToolCalls(lambda conversation: "/", lambda conversation: "", terminal=False)
        )
    )
    for update in told:
        s.SessionNotification.model_validate({"sessionId": "x", "update": update})
    assert [(update["sessionUpdate"], update.get("messageId", update.get("status"))) for update in told] == [
        ("agent_thought_chunk", "s"),
        ("user_message_chunk", "u"),
        ("user_message_chunk", "u"),
        ("user_message_chunk", "u"),
        ("agent_thought_chunk", "r"),
        ("tool_call", "pending"),
        ("tool_call_update", "completed"),
        ("agent_message_chunk", "a"),
    ]
    assert told[2]["content"] == {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    assert told[3]["content"] == {"type": "resource_link", "name": "image", "uri": "https://example.com/a.png"}
