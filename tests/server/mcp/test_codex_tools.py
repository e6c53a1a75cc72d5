"""`codex` and `codex-reply`, as programs that know them call them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tertulia.models.scripted.script import fail, say
from tertulia.protocol import inputs
from tests.mcp.connected import until
from tests.server.mcp_stage import ERAS, mcp_stage
from tests.tables import each_row


async def test_their_schemas_are_those_that_hosts_know() -> None:
    """Kebab-case, nothing unknown, {threadId, content} back."""
    async with mcp_stage() as stage:
        tools = {tool.name: tool for tool in (await stage.client.list_tools()).tools}
        schema = tools["codex"].input_schema
        assert set(schema["properties"]) == {
            *("prompt", "model", "cwd", "approval-policy", "sandbox", "config", "base-instructions"),
            *("developer-instructions", "compact-prompt"),
        }
        assert schema["required"] == ["prompt"]
        assert schema["additionalProperties"] is False
        assert set(tools["codex-reply"].input_schema["properties"]) == {"prompt", "threadId", "conversationId"}
        for name in ("codex", "codex-reply"):
            output_schema = tools[name].output_schema
            assert output_schema is not None
            assert set(output_schema["properties"]) == set(output_schema["required"]) == {"threadId", "content"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_thread_goes_on_where_it_was(era: str, tmp_path: Path) -> None:
    async with mcp_stage(era, ["one", "two", "three"]) as stage:
        begun = await stage.call(
            "codex", prompt="hi", sandbox="read-only", cwd=str(tmp_path), **{"base-instructions": "Be brief."}
        )
        assert begun["content"] == "one"
        (session,) = stage.host.sessions
        assert session.id == begun["threadId"]
        assert session.info.policy["sandbox"] == "read-only"
        assert (await session.root.context()).base_instructions == "Be brief."
        assert (await stage.call("codex-reply", prompt="go on", threadId=begun["threadId"]))["content"] == "two"
        older = await stage.call("codex-reply", prompt="go on", conversationId=begun["threadId"])
        assert older == {"threadId": begun["threadId"], "content": "three"}
        assert len(await session.root.history()) == 6


async def test_a_thread_that_was_closed_is_gone_on_with_from_its_record() -> None:
    """What Codex's own server cannot."""
    async with mcp_stage("auto", ["one", "two"]) as stage:
        thread = (await stage.call("codex", prompt="hi"))["threadId"]
        await stage.host.close_session(stage.host[thread])
        assert (await stage.call("codex-reply", prompt="go on", threadId=thread))["content"] == "two"


async def test_two_threads_do_not_wait_for_each_other() -> None:
    """DESIGN, nouns: a thread is a session."""
    gate = asyncio.Event()
    async with mcp_stage("auto", [say("late", gate=gate), "quick"]) as stage:
        slow = asyncio.ensure_future(stage.call("codex", prompt="slow"))
        await until(lambda: bool(stage.progress))
        assert (await stage.call("codex", prompt="quick"))["content"] == "quick"
        assert not slow.done()
        gate.set()
        assert (await slow)["content"] == "late"


async def test_a_thread_never_gets_more_than_the_server_has() -> None:
    async with mcp_stage("auto", sandbox="read-only") as stage:
        thread = (await stage.call("codex", prompt="hi", sandbox="danger-full-access"))["threadId"]
        assert stage.host[thread].info.policy["sandbox"] == "read-only"


async def test_a_model_without_a_provider_is_one_of_the_servers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts of Codex name models as Codex does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text('{"replies": ["from the other"]}')
    async with mcp_stage() as stage:
        assert (await stage.call("codex", prompt="hi", model="other.json"))["content"] == "from the other"


async def test_a_task_that_fails_says_why_as_its_content() -> None:
    async with mcp_stage("auto", [fail("the model is away")]) as stage:
        answer = await stage.client.call_tool("codex", {"prompt": "hi"})
        assert answer.is_error
        assert "the model is away" in answer.structured_content["content"]


@each_row(
    ("tool", "arguments", "code"),
    [
        ("codex", {}, "invalid_params"),
        ("codex", {"prompt": 7}, "invalid_params"),
        ("codex", {"prompt": "x", "approval_policy": "never"}, "invalid_params"),
        ("codex", {"prompt": "x", "sandbox": "none"}, "invalid_params"),
        ("codex", {"prompt": "x", "cwd": "/no/such/place"}, "invalid_params"),
        ("codex", {"prompt": "x", "cwd": "relative"}, "invalid_params"),
        ("codex", {"prompt": "x", "model": "nobody/knows"}, "invalid_params"),
        ("codex", {"prompt": ""}, "invalid_params"),
        ("codex-reply", {"prompt": "x"}, "invalid_params"),
        ("codex-reply", {"prompt": "x", "threadId": "6b1ab4f8-0c9e-4b52-8d2a-4be0a2a35a05"}, "not_found"),
        ("codex-reply", {"prompt": "x", "threadId": "../x"}, "not_found"),
    ],
)
async def test_what_is_wrong_is_refused_and_leaves_nothing_behind(
    tool: str, arguments: dict[str, object], code: str
) -> None:
    """Issue 10, S004-32: not even a thread that nobody was told of."""
    async with mcp_stage() as stage:
        assert not stage.host.sessions
        refusal = json.loads(await stage.refused(tool, **arguments))
        assert refusal["code"] == code
        assert not stage.host.sessions


@pytest.mark.parametrize("long", ["prompt", "base-instructions", "developer-instructions"])
async def test_a_thread_whose_first_words_are_refused_is_not_kept(long: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10: what is found out only when the session is there takes it away again."""
    async with mcp_stage() as stage:
        monkeypatch.setattr(inputs, "MAX_TEXT_BYTES", 10_000)
        refusal = json.loads(await stage.refused("codex", **{"prompt": "x", long: "y" * 10_001}))
        assert refusal["code"] == "invalid_params"
        assert not stage.host.sessions
        assert (await stage.call("codex", prompt="x"))["content"] == "hello"
        assert len(stage.host.sessions) == 1
