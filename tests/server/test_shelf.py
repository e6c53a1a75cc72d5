"""Conversations as resources of an MCP server."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError

from tests.server.mcp_stage import ERAS, mcp_stage

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
async def test_every_open_conversation_is_listed_and_can_be_read(era: str) -> None:
    """Issue 10: conversations as resources."""
    async with mcp_stage(era, ["one"]) as stage:
        id = (await stage.call("conversation_open", title="helper"))["conversation_id"]
        await stage.call("conversation_message", conversation_id=id, text="hi")
        listed = (await stage.client.list_resources()).resources
        assert [one.title for one in listed] == [None, "helper"]
        assert str(listed[1].uri) == f"tertulia://conversations/{id}"
        (content,) = (await stage.client.read_resource(listed[1].uri)).contents
        told = json.loads(content.text)  # type: ignore[union-attr]
        assert told["conversation"]["message_count"] == 2
        assert [entry["text"] for entry in told["entries"]] == ["hi", "one"]
        (template,) = (await stage.client.list_resource_templates()).resource_templates
        assert template.uri_template == "tertulia://conversations/{conversation_id}"


@both_eras
@pytest.mark.parametrize("uri", ["tertulia://conversations/nobody", "file:///etc/passwd", "tertulia://conversations/"])
async def test_what_is_no_conversation_is_not_there(era: str, uri: str) -> None:
    """D15: an address is a name, never a path."""
    async with mcp_stage(era) as stage:
        with pytest.raises(MCPError) as refused:
            await stage.client.read_resource(uri)
        assert refused.value.error.code == (-32602 if era == "auto" else -32002)
        assert len((await stage.client.list_resources()).resources) == 1
