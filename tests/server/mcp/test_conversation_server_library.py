"""Conversations as resources of an MCP server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tertulia.server.idle_sessions import IdleSessionCloser
from tertulia.testing import FakeClock
from tests.mcp.connected import until
from tests.server.brokering import News
from tests.server.mcp_stage import ERAS, Stage, mcp_stage

CHANGED = "notifications/resources/list_changed"

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
        answer = json.loads(content.text)  # type: ignore[union-attr]
        assert answer["conversation"]["message_count"] == 2
        assert [entry["text"] for entry in answer["entries"]] == ["hi", "one"]
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


async def changes(stage: Stage, news: News, what: str, **arguments: Any) -> Any:
    """A call, and the news that follow it."""
    news.came.clear()
    answer = await stage.call(what, **arguments)
    await until(news.came.is_set)
    assert set(news.methods) == {CHANGED}
    return answer


async def test_a_client_of_the_old_era_is_told_when_there_are_others() -> None:
    """Issue 10: opened, called something else, closed; said in the handshake, and without having asked for the list."""
    news = News()
    async with mcp_stage("legacy", news=news) as stage:
        offered = stage.client.server_capabilities.resources
        assert offered is not None
        assert offered.list_changed
        id = (await changes(stage, news, "conversation_open", title="one"))["conversation_id"]
        assert [resource.title for resource in (await stage.client.list_resources()).resources] == [None, "one"]
        await changes(stage, news, "conversation_set_context", conversation_id=id, title="two")
        assert [resource.title for resource in (await stage.client.list_resources()).resources] == [None, "two"]
        await changes(stage, news, "conversation_close", conversation_id=id)
        assert [resource.title for resource in (await stage.client.list_resources()).resources] == [None]


async def test_a_client_of_the_new_era_is_told_if_it_listens() -> None:
    """Issue 10: `subscriptions/listen`, and nothing besides."""
    news = News()
    async with mcp_stage("auto", news=news) as stage:
        await stage.client.list_resources()
        async with stage.client.listen(resources_list_changed=True) as listening:
            heard = aiter(listening)
            await stage.call("conversation_open", title="one")
            assert type(await anext(heard)).__name__ == "ResourcesListChanged"
        heard_so_far = news.methods.count(CHANGED)
        async with stage.client.listen(tools_list_changed=True):
            await stage.call("conversation_open", title="two")
        await stage.call("conversation_open", title="three")
        assert news.methods.count(CHANGED) == heard_so_far


async def test_what_is_only_said_in_a_conversation_changes_no_list() -> None:
    news = News()
    async with mcp_stage("legacy", news=news) as stage:
        await stage.client.list_resources()
        await stage.call("conversation_message", conversation_id="root", text="hi")
        await stage.call("conversation_set_context", conversation_id="root", base_instructions="Be brief.")
        await stage.client.list_resources()
        assert CHANGED not in news.methods


async def test_a_hundred_conversations_at_once_are_few_news() -> None:
    """G2, G5: bounded."""
    news = News()
    async with mcp_stage("legacy", news=news) as stage:
        for _ in range(100):
            await stage.call("conversation_open")
        await until(news.came.is_set)
        assert len(news.methods) < 50


async def test_a_library_keeps_no_session_open_and_follows_the_one_that_comes_after_it() -> None:
    """What is watched is no reason to live: else no session of MCP clients would ever be closed."""
    news = News()
    async with mcp_stage("legacy", news=news) as stage:
        await stage.client.list_resources()
        (session,) = stage.host.sessions
        clock = FakeClock()
        idle = IdleSessionCloser(stage.host, clock, idle_s=10)
        await idle.look()
        clock.advance(11)
        await idle.look()
        assert session.closed
        assert not news.methods, "its conversations are not gone"
        await stage.call("conversation_open", title="later")
        await until(news.came.is_set)
        assert [resource.title for resource in (await stage.client.list_resources()).resources] == [None, "later"]
        assert [again.id for again in stage.host.sessions] == [session.id]


UPDATED = "notifications/resources/updated"


async def test_a_client_of_the_old_era_is_told_of_the_conversation_that_it_subscribed_to() -> None:
    """Issue 25: until it gives that up; not of others."""
    news = News()
    async with mcp_stage("legacy", ["one", "two", "three"], news=news) as stage:
        offered = stage.client.server_capabilities.resources
        assert offered is not None
        assert offered.subscribe
        id = (await stage.call("conversation_open"))["conversation_id"]
        await until(news.came.is_set)
        await stage.client.subscribe_resource(f"tertulia://conversations/{id}")
        news.methods.clear()
        await stage.call("conversation_message", conversation_id="root", text="hi")
        assert UPDATED not in news.methods
        await stage.call("conversation_message", conversation_id=id, text="hi")
        await until(lambda: UPDATED in news.methods)
        await stage.client.unsubscribe_resource(f"tertulia://conversations/{id}")
        news.methods.clear()
        await stage.call("conversation_message", conversation_id=id, text="hi")
        assert UPDATED not in news.methods


async def test_a_client_of_the_new_era_listens_to_single_conversations() -> None:
    """Issue 25: `subscriptions/listen` with their addresses."""
    async with mcp_stage("auto", ["one"]) as stage:
        id = (await stage.call("conversation_open"))["conversation_id"]
        uri = f"tertulia://conversations/{id}"
        async with stage.client.listen(resource_subscriptions=[uri]) as listening:
            heard = aiter(listening)
            await stage.call("conversation_message", conversation_id=id, text="hi")
            assert str((await anext(heard)).uri) == uri  # type: ignore[union-attr]


async def test_what_is_no_conversation_cannot_be_subscribed_to() -> None:
    async with mcp_stage("legacy") as stage:
        with pytest.raises(MCPError) as refused:
            await stage.client.subscribe_resource("tertulia://conversations/nobody")
        assert refused.value.error.code == -32002


async def test_a_subscription_keeps_no_session_open() -> None:
    async with mcp_stage("legacy", ["one"]) as stage:
        id = (await stage.call("conversation_open"))["conversation_id"]
        await stage.client.subscribe_resource(f"tertulia://conversations/{id}")
        (session,) = stage.host.sessions
        assert session.activity.is_idle


AGENTS = {"reviewer": {"instructions": "You review.", "description": "Reviews code"}}


@both_eras
async def test_agents_and_slash_commands_are_prompts(era: str) -> None:
    """Issue 25: listed, and got with their arguments."""
    async with mcp_stage(era, ["one"], agents=AGENTS) as stage:
        listed = (await stage.client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == ["agent/reviewer", "status", "mcp", "tools", "diff"]
        assert listed[0].description == "Reviews code"
        got = await stage.client.get_prompt("agent/reviewer", {"task": "look at main.py"})
        (message,) = got.messages
        text = message.content.text  # type: ignore[union-attr]
        assert '{"agent":"reviewer"}' in text
        assert text.endswith("look at main.py")
        (message,) = (await stage.client.get_prompt("status")).messages
        assert "- model: " in message.content.text  # type: ignore[union-attr]
        assert await stage.call("conversation_open", agent="reviewer")


@both_eras
@pytest.mark.parametrize("name", ["agent/reviewer", "agent/nobody", "undo", "nothing"])
async def test_a_prompt_that_there_is_not_or_that_lacks_its_task_is_refused(era: str, name: str) -> None:
    async with mcp_stage(era, agents=AGENTS) as stage:
        with pytest.raises(MCPError) as refused:
            await stage.client.get_prompt(name)
        assert refused.value.error.code == -32602
