"""Servers that we did not write, as their users start them: over stdio and HTTP, of both eras."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.server_connection import Elicitation, SamplingRequest
from tests.deadlines import HANG_S
from tests.mcp.connected import Asked, Reach, call
from tests.mcp.fakes import by_http, by_stdio
from tests.mcp.real import npm_server, pypi_server
from tests.sandbox.confined import tagged

EVERYTHING = "server-everything"


async def test_the_time(reach: Reach) -> None:
    """PyPI mcp-server-time, modern era."""
    link = await reach(by_stdio(pypi_server("mcp-server-time", "--local-timezone", "UTC")))
    assert {tool.name for tool in (await link.list_tools()).tools} == {"get_current_time", "convert_time"}
    answer = await call(link, "get_current_time", timezone="Europe/Madrid")
    assert json.loads(answer.text)["timezone"] == "Europe/Madrid"
    wrong = await call(link, "get_current_time", timezone="Nowhere/Land")
    assert wrong.is_error
    assert "Nowhere/Land" in wrong.text
    assert link.protocol_version == "2026-07-28"


async def test_a_repository(reach: Reach, tmp_path: Path) -> None:
    """PyPI mcp-server-git, modern era."""
    for line in (
        ("init", "-q"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one", "--allow-empty"),
    ):
        subprocess.run(["git", *line], cwd=tmp_path, check=True)
    (tmp_path / "new.txt").write_text("x")
    link = await reach(by_stdio(pypi_server("mcp-server-git", "--repository", str(tmp_path))))
    tools = {tool.name: tool for tool in (await link.list_tools()).tools}
    assert tools["git_status"].hints.read_only
    assert tools["git_reset"].hints.destructive
    assert "new.txt" in (await call(link, "git_status", repo_path=str(tmp_path))).text
    outside = await call(link, "git_status", repo_path="/")
    assert outside.is_error


async def test_files_below_a_root_and_no_others(reach: Reach, tmp_path: Path) -> None:
    """npm server-filesystem, old era; it asks for our roots."""
    (tmp_path / "a.txt").write_text("what it says")
    definition, launch = by_stdio(npm_server("server-filesystem", str(tmp_path)))
    link = await reach((definition, replace(launch, roots=(str(tmp_path),))))
    assert "read_text_file" in {tool.name for tool in (await link.list_tools()).tools}
    assert (await call(link, "read_text_file", path=str(tmp_path / "a.txt"))).text == "what it says"
    outside = await call(link, "read_text_file", path="/etc/hostname")
    assert outside.is_error
    assert "outside allowed directories" in outside.text


@pytest.fixture(params=["stdio", "http"])
def everything(request: pytest.FixtureRequest) -> Iterator[tuple[ServerDefinition, Launch]]:
    """npm server-everything, started by us or running already."""
    if request.param == "stdio":
        yield by_stdio(npm_server(EVERYTHING, "stdio"), sampling=True)
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = npm_server(EVERYTHING, "streamableHttp")
    with subprocess.Popen(command, env={"PORT": str(port), "PATH": "/usr/bin:/bin"}, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            while b"listening" not in process.stderr.readline():
                assert process.poll() is None
            yield by_http(f"http://127.0.0.1:{port}/mcp", sampling=True)
        finally:
            process.kill()


async def test_everything(everything: tuple[ServerDefinition, Launch], reach: Reach) -> None:
    """npm server-everything, old era, over both transports: text, pictures, resources, structure, progress."""
    link = await reach(everything)
    tools = {tool.name for tool in (await link.list_tools()).tools}
    assert {"echo", "get-sum", "get-tiny-image"} <= tools
    assert link.protocol_version == "2025-11-25"
    assert (await call(link, "echo", message="hi")).text == "Echo: hi"
    picture = await call(link, "get-tiny-image")
    assert [part.image_url[:22] for part in picture.parts if hasattr(part, "image_url")] == ["data:image/png;base64,"]
    structured = await call(link, "get-structured-content", location="New York")
    assert set(structured.structured) >= {"temperature", "conditions"}
    heard: list[float] = []
    slow = await call(
        link, "trigger-long-running-operation", duration=0.2, steps=4, on_progress=lambda done, *_: heard.append(done)
    )
    assert "completed" in slow.text
    assert heard == [1.0, 2.0, 3.0, 4.0]
    assert (await call(link, "get-sum", a="no", b=1)).is_error
    await link.close()


async def test_everything_asks_back(everything: tuple[ServerDefinition, Launch], reach: Reach) -> None:
    """npm server-everything: sampling and elicitation reach the conversation whose call caused them (C16)."""
    link = await reach(everything)
    caller, other = Asked("c1"), Asked("c2")
    tools = {tool.name for tool in (await link.list_tools()).tools}
    sampled = await call(link, "trigger-sampling-request", caller, prompt="say something", maxTokens=20)
    assert "to " in sampled.text
    assert isinstance(caller.questions[0], SamplingRequest)
    if "trigger-elicitation-request" in tools:
        await call(link, "trigger-elicitation-request", caller)
        assert isinstance(caller.questions[-1], Elicitation)
    assert other.questions == []
    await link.close()


@pytest.mark.parametrize("everything", ["http"], indirect=True)
async def test_over_http_two_conversations_are_asked_at_once_in_the_old_era_too(
    everything: tuple[ServerDefinition, Launch], reach: Reach
) -> None:
    """S000-38: a question comes on the stream of the request that caused it, and that says whose it is."""
    link = await reach(everything)
    callers = [Asked(f"c{n}") for n in range(4)]
    for caller in callers:
        caller.may_answer.clear()
    prompts = [f"prompt of c{n}" for n in range(4)]
    calls = [
        asyncio.create_task(call(link, "trigger-sampling-request", caller, prompt=prompt, maxTokens=5))
        for caller, prompt in zip(callers, prompts, strict=True)
    ]
    for caller in callers:
        await asyncio.wait_for(caller.being_asked.wait(), HANG_S)
    for caller, prompt in zip(callers, prompts, strict=True):
        (question,) = caller.questions
        assert isinstance(question, SamplingRequest)
        assert prompt in question.messages[0][1]
        caller.may_answer.set()
    await asyncio.gather(*calls)
    await link.close()


async def test_a_server_of_others_ends_with_the_connection(reach: Reach) -> None:
    """A17: nothing of it is left."""
    tag = f"tag{secrets.token_hex(6)}"
    link = await reach(by_stdio(npm_server(EVERYTHING, "stdio", tag)))
    assert tagged(tag)
    await asyncio.wait_for(link.close(), HANG_S)
    assert not tagged(tag)
