"""Reasoning effort, temperature and the most tokens of an answer: in each API's own words, or refused with reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.models.wire import AnswerFailure, ModelSettings
from tertulia.testing import ScriptedModel, call
from tests.cli.running import Shell
from tests.contract.python_session import soon
from tests.models.apis import CHAT, MESSAGES, Api, every_api
from tests.models.mock_provider import MockProvider, Told
from tests.models.wire_contract import a_request
from tests.tables import each_row

ALL = ModelSettings("high", 0.5, 77)
WORDS: dict[str, dict[str, Any]] = {
    "responses": {"reasoning": {"effort": "high"}, "temperature": 0.5, "max_output_tokens": 77},
    "chat": {"reasoning_effort": "high", "temperature": 0.5, "max_tokens": 77},
    "messages": {"output_config": {"effort": "high"}, "temperature": 0.5, "max_tokens": 77},
}


def providers(api: Api, url: str, **fields: Any) -> dict[str, Any]:
    return {"mine": {"base_url": url, "wire": api.name, **fields}}


def chosen(body: dict[str, Any], api: Api) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name in WORDS[api.name]}


@every_api
async def test_each_api_is_told_in_its_own_words(api: Api) -> None:
    """Issue 19 (7): on all three wires; what is not set is not sent."""
    async with MockProvider(api.answer(Told(text="hello"))) as provider:
        settings = tertulia.Settings(model="mine/model", model_providers=providers(api, provider.url))
        async with tertulia.Session.start(settings) as session:
            await soon(session.root.message("hi"))
            set_up = await session.open(reasoning_effort="high", temperature=0.5, max_output_tokens=77)
            await soon(set_up.message("hi"))
            await set_up.set_context(reasoning_effort=None, temperature=0.25, max_output_tokens=None)
            await soon(set_up.message("hi"))
        plain, whole, less = (chosen(seen.json, api) for seen in provider.seen)
    assert {name for name in plain if name != "max_tokens"} == set()
    assert whole == WORDS[api.name]
    assert less == {**plain, "temperature": 0.25}


@every_api
async def test_the_conversation_counts_before_the_session_and_that_before_the_provider(api: Api) -> None:
    async with MockProvider(api.answer(Told(text="hello"))) as provider:
        table = providers(api, provider.url, reasoning_effort="low", temperature=0.1, max_output_tokens=11)
        settings = tertulia.Settings(model="mine/model", model_providers=table, temperature=0.5)
        async with tertulia.Session.start(settings) as session:
            child = await session.open(max_output_tokens=77)
            await soon(child.message("hi"))
        (body,) = (chosen(seen.json, api) for seen in provider.seen)
    wanted = json.loads(json.dumps(WORDS[api.name]).replace("high", "low"))
    assert body == wanted


async def test_openai_has_another_word_for_the_most_tokens_in_chat_completions() -> None:
    api = CHAT
    async with MockProvider(api.answer(Told(text="hello"))) as provider:
        table = {"openai": {"base_url": provider.url, "wire": "chat"}}
        settings = tertulia.Settings(model="openai/gpt-4o", model_providers=table, max_output_tokens=77)
        async with tertulia.Session.start(settings) as session:
            await soon(session.root.message("hi"))
        assert provider.seen[0].json["max_completion_tokens"] == 77
        assert "max_tokens" not in provider.seen[0].json


async def test_an_effort_and_a_schema_are_told_to_messages_together() -> None:
    api = MESSAGES
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    async with MockProvider(api.answer(Told(text='{"a": 1}'))) as provider:
        settings = tertulia.Settings(
            model="mine/model", model_providers=providers(api, provider.url), reasoning_effort="max"
        )
        async with tertulia.Session.start(settings) as session:
            await soon(session.root.message("hi", output_schema=schema))
        output = provider.seen[0].json["output_config"]
    assert output == {"effort": "max", "format": {"type": "json_schema", "schema": schema}}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("openai/gpt-4.1", {"reasoning_effort": "high"}, "does not reason"),
    ("anthropic/claude-3-5-haiku", {"reasoning_effort": "low"}, "does not reason"),
    (
        "anthropic/claude-opus-4-6",
        {"reasoning_effort": "minimal"},
        "has no 'minimal', only low, medium, high, xhigh, max",
    ),
    ("openai/gpt-5.2", {"reasoning_effort": "max"}, "has no 'max', only none, minimal"),
    ("openai/gpt-5.2", {"temperature": 0.2}, "is a reasoning model and takes none; use reasoning_effort"),
    ("openai/o3", {"temperature": 1, "reasoning_effort": "low"}, "takes none"),
    ("anthropic/claude-opus-4-6", {"temperature": 1.5}, "takes at most 1, not 1.5"),
    ("openai/gpt-4o", {"max_output_tokens": 200_000}, "200,000 is more than the window of openai/gpt-4o, 128,000"),
    ("local/smollm2", {"temperature": 0.1}, "as its makers advise"),
    ("scripted/tour", {"temperature": 2.1}, "temperature must be a number from 0 to 2, not 2.1"),
    ("scripted/tour", {"temperature": float("nan")}, "temperature must be a number from 0 to 2"),
    ("scripted/tour", {"max_output_tokens": 0}, "must be a whole number from 1 to 1,000,000"),
    ("scripted/tour", {"reasoning_effort": "hihg"}, "did you mean high?"),
]


@each_row("row", REFUSED)
async def test_what_a_model_cannot_be_asked_is_refused_with_the_reason(row: tuple[str, dict[str, Any], str]) -> None:
    """Issue 19 (7): for the session, and for a conversation."""
    model, fields, reason = row
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
        with pytest.raises(InvalidParamsError) as refused:
            await session.open(model=model, **fields)
        assert reason in refused.value.message
        assert len(session.conversations()) == 1
        assert len(session.parts.wires) == 0
    with pytest.raises(InvalidParamsError) as refused:
        async with tertulia.Session.start(tertulia.Settings(model=model, **fields)):
            pass
    assert reason in refused.value.message


ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("openai/gpt-5.2", {"temperature": 0.2, "reasoning_effort": "none"}),
    ("openai/gpt-5.2", {"reasoning_effort": "xhigh", "max_output_tokens": 100_000}),
    ("anthropic/claude-sonnet-4-5", {"temperature": 1}),
    ("openrouter/anthropic/claude-opus-4-6", {"temperature": 1.5}),
    ("ollama/qwen3", {"temperature": 2, "reasoning_effort": "low"}),
]


@each_row("row", ALLOWED)
async def test_what_is_not_known_to_be_wrong_is_left_to_the_api(row: tuple[str, dict[str, Any]]) -> None:
    model, fields = row
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel([]))) as session:
        assert (await session.open(model=model, **fields)).warnings == ()


async def test_what_is_only_inherited_is_left_out_with_a_warning() -> None:
    async with tertulia.Session.start(tertulia.Settings(model="openai/gpt-4.1", temperature=0.2)) as session:
        other = await session.open(model="openai/gpt-5.2")
        (warning,) = other.warnings
        assert warning.startswith("temperature: openai/gpt-5.2 is a reasoning model and takes none")
        assert (await session.open()).warnings == ()


async def test_an_executor_is_not_told_of_them() -> None:
    program = {"echo": {"command": ["cat"], "output": "text", "sandbox": {"workspace-write": []}}}
    settings = tertulia.Settings(model=ScriptedModel([]), executors=program, temperature=0.5)
    async with tertulia.Session.start(settings) as session:
        await session.open(backend="command:echo")
        with pytest.raises(InvalidParamsError, match="backend command:echo is told nothing of it"):
            await session.open(backend="command:echo", temperature=0.5)


async def test_children_inherit_them_and_a_resumed_session_has_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded, so that resume has the same; also where no text is stored."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "data"))
    model = ScriptedModel([call("conv_create", {"user_instruction": "go"}), "a", "b", "c"])
    settings = tertulia.Settings(model=model, storage_policy="headers_only", cwd=str(tmp_path))
    async with tertulia.Session.start(settings) as session:
        await session.root.set_context(reasoning_effort="high", temperature=0.5, max_output_tokens=77)
        await soon(session.root.message("hi"))
    async with tertulia.Session.resume(session.id, settings) as again:
        await soon(again.root.message("hi"))
    assert [request.request.settings for request in model.requests] == [ALL] * 4


@every_api
async def test_a_wire_that_cannot_ask_so_fails_the_request_and_sends_nothing(api: Api) -> None:
    """After a resume with another model, for one: the reason is the failure of the task."""
    async with MockProvider(api.answer(Told(text="hello"))) as provider:
        wire = api.wire(provider.url, model="gpt-4.1")
        request = replace(a_request(dialect=wire.dialect), settings=ModelSettings("low"))
        (piece,) = [piece async for piece in wire.stream(request)]
        await wire.close()
    assert isinstance(piece, AnswerFailure)
    assert "does not reason" in piece.message
    assert provider.seen == []


def test_on_the_command_line_they_are_settings_and_a_refusal_is_an_exit_code(shell: Shell) -> None:
    ran = shell.run("exec", "-m", "openai/gpt-4.1", "-c", "reasoning_effort=high", "hi")
    assert ran.code == 2
    assert "reasoning_effort: openai/gpt-4.1 does not reason" in ran.err
    ran = shell.run("exec", "-m", shell.script("done"), "-c", "temperature=0.5", "-c", "max_output_tokens=9", "hi")
    assert (ran.code, ran.out) == (0, "done\n")
    assert "temperature must be a number from 0 to 2" in shell.run("exec", "-c", "temperature=warm", "hi").err


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in ("TERTULIA_HOME", "TERTULIA_MODEL", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Shell(tmp_path / "work", capsys)
