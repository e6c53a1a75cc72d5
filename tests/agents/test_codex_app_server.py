"""One script, played to the real `codex app-server` and to ours on the same provider; here is all that may differ.

Both talk to a provider on loopback. Every message of both is held against the schemas that Codex prints.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents.installed import REAL
from tests.agents.provider import Provider, provider
from tests.deadlines import HANG_S
from tests.executors.agents import until
from tests.server.codex_client import CodexClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TERTULIA = str(Path(sys.executable).with_name("tertulia"))
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\nEOF\n"

ONLY_CODEX = {
    "account/rateLimits/updated": "there are no accounts here",
    "remoteControl/status/changed": "there is no remote control here",
    "thread/goal/cleared": "a thread without a goal has none that could be cleared",
    "turn/diff/updated": "each change has its own diff here, and there is none of the whole turn",
    "deprecationNotice": "turns are given whole here, and that is not deprecated",
    "warning": "Codex does not know the model of this test, and says so in every turn",
}
"""Methods that Codex sends and we do not."""
ONLY_OURS = {
    "item/commandExecution/outputDelta": "Codex leaves it out where a command ends at once",
}
LOOSE = {
    "thread/status/changed": "we begin the item before we wait for its approval; the order of the states is the same",
    "thread/tokenUsage/updated": "we tell it once, before the last item of an answer ends; Codex after it, and again",
    "item/agentMessage/delta": "a piece is as long as it comes",
}
"""Methods whose place among the others differs."""
NOT_GIVEN: dict[str, set[str]] = {
    "thread": {
        "environments", "extra", "section", "sectionEnteredAt", "reasoningEffort", "recencyAt", "originator",
        "canAcceptDirectInput", "threadSource", "agentNickname", "agentRole", "daybreakEnabled",
    },
    "turn": {"rootTurnId"},
    "agentMessage": {"delivery", "questions", "startedAtMs", "completedAtMs"},
    "userMessage": {"startedAtMs", "completedAtMs"},
    "commandExecution": {"pluginId", "scriptPath", "startedAtMs", "completedAtMs"},
    "fileChange": {"startedAtMs", "completedAtMs"},
    "contextCompaction": {"startedAtMs", "completedAtMs"},
    "item/commandExecution/requestApproval": {"environmentId", "proposedExecpolicyAmendment"},
    "thread/start": {
        "serviceTier", "disabledPluginIds", "runtimeWorkspaceRoots", "instructionSources", "activePermissionProfile",
        "multiAgentMode", "initialTurnsPage", "collaborationMode", "itemsBackwardsCursor", "turnsBackwardsCursor",
    },
    "thread/tokenUsage/updated": {"cacheWriteInputTokens"},
}  # fmt: skip
"""Fields that Codex gives and we do not: all of them optional by its own schema."""


@asynccontextmanager
async def server(*command: str, home: Path, cwd: Path) -> AsyncIterator[CodexClient]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=-1, stdout=-1, stderr=asyncio.subprocess.DEVNULL, env=env, cwd=cwd, limit=2**26
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = CodexClient(process.stdout, process.stdin.write)
    listening = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        process.stdin.close()
        async with asyncio.timeout(HANG_S):
            await process.wait()
            await listening


async def play(client: CodexClient, mock: Provider, cwd: Path) -> None:
    """Turns with and without commands, both answers to a question, a patch, an interruption, and a look at it all."""
    await client.fail("thread/start")
    await client.call("initialize", clientInfo={"name": "test", "title": "Test", "version": "1"})
    await client.fail("initialize", clientInfo={"name": "test", "title": "Test", "version": "1"})
    client.send({"method": "initialized"})
    await client.fail("thread/start", cwd=5)
    opened = await client.call(
        "thread/start", cwd=str(cwd), approvalPolicy="untrusted", sandbox="danger-full-access", model="mock"
    )
    thread = opened["thread"]["id"]
    await client.told("thread/started")
    assert (await client.turn(thread, "hello"))["status"] == "completed"
    mock.calls = [_runs("touch mark && echo done", "call-1")]
    await client.turn(thread, "run it")
    assert (cwd / "mark").exists()
    mock.calls, client.decisions = [_runs("touch other", "call-2")], [{"decision": "decline"}]
    await client.turn(thread, "run the other")
    assert not (cwd / "other").exists()
    mock.calls = [_runs(PATCH, "call-3")]
    await client.turn(thread, "write it")
    assert (cwd / "new.txt").read_text() == "hello\n"
    await _stop(client, mock, thread)
    compacted = len(client.all("turn/completed"))
    assert await client.call("thread/compact/start", threadId=thread) == {}
    await client.until(lambda m: len(client.all("turn/completed")) > compacted)
    await client.call("thread/read", threadId=thread)
    await client.call("thread/list")
    await client.call("thread/fork", threadId=thread)
    await client.until(lambda m: len(client.all("thread/started")) == 2)
    await client.call("thread/resume", threadId=thread)
    await client.call("thread/archive", threadId=thread)
    await client.told("thread/archived")
    await client.fail("thread/resume", threadId=thread)


async def _stop(client: CodexClient, mock: Provider, thread: str) -> None:
    mock.going.clear()
    before = len(mock.bodies)
    begun = await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "wait"}])
    turn = begun["turn"]["id"]
    await until(lambda: len(mock.bodies) > before)
    words = [{"type": "text", "text": "faster"}]
    await client.fail("turn/steer", threadId=thread, expectedTurnId="other", input=words)
    await client.call("turn/interrupt", threadId=thread, turnId=turn)
    assert (await client.ended(turn))["status"] == "interrupted"
    mock.going.set()
    await client.fail("turn/steer", threadId=thread, expectedTurnId=turn, input=words)


def _runs(command: str, call_id: str) -> Any:
    return lambda body: {"name": "exec_command", "arguments": {"cmd": command}, "call_id": call_id}


@pytest.fixture
def mock() -> Iterator[Provider]:
    with provider() as made:
        yield made


async def played_to_codex(mock: Provider, tmp_path: Path) -> CodexClient:
    program = REAL["codex"].program()
    home, cwd = tmp_path / "codex-home", tmp_path / "codex-work"
    cwd.mkdir()
    REAL["codex"].table(home, mock.url)
    async with server(program, "app-server", home=home, cwd=cwd) as client:
        await play(client, mock, cwd)
    return client


async def played_to_us(mock: Provider, tmp_path: Path) -> CodexClient:
    home, cwd = tmp_path / "our-home", tmp_path / "our-work"
    cwd.mkdir()
    config = home / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'model = "mock/mock"\nshell_mode = "streamable"\n'
        f'[model_providers.mock]\nbase_url = "{mock.url}/v1"\nwire = "responses"\n'
    )
    async with server(TERTULIA, "app-server", "--codex", "-s", "danger-full-access", home=home, cwd=cwd) as client:
        await play(client, mock, cwd)
    return client


async def test_ours_says_what_codex_says_in_the_same_order(mock: Provider, tmp_path: Path) -> None:
    """Issue 10: a differential run of one script; the lists above are all that may differ."""
    real = await played_to_codex(mock, tmp_path)
    mock.calls.clear()
    ours = await played_to_us(mock, tmp_path)
    assert _sequence(ours) == _sequence(real)
    assert _states(ours) == _states(real)
    assert _costs(ours) == _costs(real)
    assert _numbers(ours) == _numbers(real)
    assert set(_methods(ours)) - set(_methods(real)) <= set(ONLY_OURS)
    assert set(_methods(real)) - set(_methods(ours)) <= set(ONLY_CODEX)
    missing = {kind: fields - _fields(ours).get(kind, set()) for kind, fields in _fields(real).items()}
    assert {kind: fields - NOT_GIVEN.get(kind, set()) for kind, fields in missing.items() if fields} == {
        kind: set() for kind, fields in missing.items() if fields
    }


def _methods(client: CodexClient) -> list[str]:
    return [message["method"] for message in client.messages if "method" in message]


def _sequence(client: CodexClient) -> list[str]:
    """Everything that has its place: answers with their outcome, requests, notifications, items with their kind."""
    left_out = {*ONLY_CODEX, *ONLY_OURS, *LOOSE}
    made: list[str] = []
    for message in client.messages:
        method = message.get("method")
        if method is None:
            made.append("error" if "error" in message else "answer")
        elif method in ("item/started", "item/completed"):
            item = message["params"]["item"]
            made.append(f"{method} {item['type']} {item.get('status', '')}")
        elif method == "turn/completed":
            made.append(f"{method} {message['params']['turn']['status']}")
        elif method not in left_out:
            made.append(method)
    return _settled(made)


def _settled(made: list[str]) -> list[str]:
    """Answers to requests that do not wait for a turn may come before or after a notification: only turns are kept."""
    return [entry for entry in made if entry != "answer"]


def _states(client: CodexClient) -> list[str]:
    return [json.dumps(params["status"]) for params in client.all("thread/status/changed")]


def _numbers(client: CodexClient) -> list[int]:
    return [message["error"]["code"] for message in client.messages if "error" in message]


def _costs(client: CodexClient) -> list[bool]:
    """Of each turn, whether it was told what it has cost."""
    turns = [params["turn"]["id"] for params in client.all("turn/started")]
    notification = Counter(params["turnId"] for params in client.all("thread/tokenUsage/updated"))
    return [notification[turn] > 0 for turn in turns]


def _fields(client: CodexClient) -> dict[str, set[str]]:
    """By kind of thing: the fields that it was seen with."""
    seen: dict[str, set[str]] = {}

    def look(kind: str, value: Any) -> None:
        seen.setdefault(kind, set()).update(value)

    for message in client.messages:
        params, result = message.get("params", {}), message.get("result", {})
        for holder in (params, result):
            if "thread" in holder:
                look("thread", holder["thread"])
            if "turn" in holder:
                look("turn", holder["turn"])
            if "item" in holder:
                look(holder["item"]["type"], holder["item"])
        if "method" in message and message["method"] not in ONLY_CODEX:
            look(message["method"], params)
        if "sandbox" in result:
            look("thread/start", result)
        if "tokenUsage" in params:
            look("thread/tokenUsage/updated", params["tokenUsage"]["last"])
    return seen
