"""`tertulia mcp-server` as an MCP host sees it: a program that it starts, and tools that keep to their schemas."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types as t
import pytest
from mcp import Client, StdioServerParameters

from tests.contract.app_server import program, surroundings, write_script
from tests.sandbox.confined import need

TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}]}
CONVERSATION = ("open", "message", "steer", "interrupt", "list", "history", "tools", "set_context", "close")

both_eras = pytest.mark.parametrize("era", ["legacy", "auto"])


class Host:
    """A host that believes schemas, and fills forms with the first thing that they offer."""

    def __init__(self, client: Client, tools: list[t.Tool], questions: list[str]) -> None:
        self.client = client
        self.tools = {tool.name: tool for tool in tools}
        self.asked = questions

    async def call(self, name: str, **arguments: Any) -> t.CallToolResult:
        jsonschema.validate(arguments, self.tools[name].input_schema)
        answer = await self.client.call_tool(name, arguments)
        assert isinstance(answer, t.CallToolResult)
        if answer.structured_content is not None:
            schema = self.tools[name].output_schema
            assert schema is not None
            jsonschema.validate(answer.structured_content, schema)
        return answer

    async def structured(self, name: str, **arguments: Any) -> Any:
        answer = await self.call(name, **arguments)
        assert not answer.is_error, answer
        return answer.structured_content


@contextlib.asynccontextmanager
async def hosting(folder: Path, era: Any, replies: list[Any], *flags: str) -> AsyncIterator[Host]:
    messages: list[str] = []

    async def fill(context: Any, form: Any) -> t.ElicitResult:
        messages.append(form.message)
        schema = form.requested_schema
        content = {name: about["enum"][0] for name, about in schema["properties"].items()}
        jsonschema.validate(content, schema)
        return t.ElicitResult(action="accept", content=content)

    command = StdioServerParameters(
        command=program(),
        args=["mcp-server", "-m", write_script(folder, replies), *flags],
        cwd=str(folder),
        env=surroundings(folder / "home"),
    )
    async with Client(command, mode=era, elicitation_callback=fill) as client:
        yield Host(client, (await client.list_tools()).tools, messages)


@both_eras
async def test_a_host_works_with_the_tools_of_the_page_and_nothing_else(tmp_path: Path, era: Any) -> None:
    """Issue 10 (3), X-70, S002-46..48: names, structured content, and the conversation always in the parameters."""
    async with hosting(tmp_path, era, ["one", "two"]) as host:
        assert list(host.tools) == [*(f"conversation_{name}" for name in CONVERSATION), "codex", "codex-reply"]
        first = (await host.structured("conversation_open", title="first"))["conversation_id"]
        second = (await host.structured("conversation_open", base_instructions="Be brief."))["conversation_id"]
        for conversation, text in ((first, "one"), (second, "two")):
            result = await host.structured("conversation_message", conversation_id=conversation, text="hi")
            assert (result["status"], result["last_assistant_message"]) == ("completed", text)
        assert len((await host.structured("conversation_list"))["conversations"]) == 3
        listed = [str(resource.uri) for resource in (await host.client.list_resources()).resources]
        read = await host.client.read_resource(next(uri for uri in listed if second in uri))
        assert '"two"' in read.contents[0].text  # type: ignore[union-attr]
        assert (await host.structured("conversation_close", conversation_id=first))["closed"]
        refused = await host.call("conversation_history", conversation_id=first)
        assert refused.is_error
        assert '"closed"' in refused.content[0].text  # type: ignore[union-attr]


@both_eras
async def test_a_person_at_the_host_is_asked_by_a_form_whose_first_answer_is_yes(tmp_path: Path, era: Any) -> None:
    """Issue 10 (3), B6: approvals as elicitation in both eras, for a conversation and for a thread."""
    need("bubblewrap")
    async with hosting(tmp_path, era, [TOUCH, "Done."], "-a", "untrusted") as host:
        await host.structured("conversation_message", conversation_id="root", text="go")
        assert (tmp_path / "made").exists()
        (tmp_path / "made").unlink()
        assert (await host.structured("codex", prompt="go"))["content"] == "Done."
        assert (tmp_path / "made").exists()
        assert len(host.asked) == 2
        assert all("touch made" in message for message in host.asked)


async def test_codex_and_codex_reply_are_as_hosts_of_codex_know_them(tmp_path: Path) -> None:
    """Issue 10 (3): kebab-case, plain types, {threadId, content}, and the answer itself as text."""
    async with hosting(tmp_path, "legacy", ["one", "two", {"error": "no answer"}]) as host:
        schema = host.tools["codex"].input_schema
        texts = {"prompt", "model", "cwd", "base-instructions", "developer-instructions", "compact-prompt"}
        kinds = {name: about["type"] for name, about in schema["properties"].items()}
        assert kinds == {**dict.fromkeys(texts | {"approval-policy", "sandbox"}, "string"), "config": "object"}
        sandboxes = {"read-only", "workspace-write", "danger-full-access"}
        assert set(schema["properties"]["sandbox"]["enum"]) == sandboxes
        assert set(schema["properties"]["approval-policy"]["enum"]) >= {"on-request", "never"}
        assert (schema["required"], schema["additionalProperties"]) == (["prompt"], False)
        reply = host.tools["codex-reply"].input_schema
        kinds = {name: about["type"] for name, about in reply["properties"].items()}
        assert kinds == dict.fromkeys(("prompt", "threadId", "conversationId"), "string")

        begun = await host.call("codex", prompt="hi", sandbox="read-only", **{"approval-policy": "never"})
        assert begun.structured_content is not None
        thread = begun.structured_content["threadId"]
        assert begun.content[0].text == begun.structured_content["content"] == "one"  # type: ignore[union-attr]
        again = await host.structured("codex-reply", prompt="go on", threadId=thread)
        assert again == {"threadId": thread, "content": "two"}
        failed = await host.call("codex-reply", prompt="go on", conversationId=thread)
        assert failed.is_error
        assert failed.structured_content == {"threadId": thread, "content": "no answer"}
        null: dict[str, Any] = {"prompt": "hi", "cwd": None, "model": None}
        assert not (await host.client.call_tool("codex", null)).is_error  # type: ignore[union-attr]
