"""The Python client against a real server, over WebSocket and over standard streams."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.reaching import ROOT, app_server, serving, surroundings
from tests.deadlines import HANG_S

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "clients/python"))


async def journey(entering: AbstractAsyncContextManager[Any]) -> None:
    """Open, message, stream events, answer an approval, and be refused."""
    from tertulia_client import RpcError

    async with asyncio.timeout(HANG_S), entering as client:
        with pytest.raises(RpcError) as early:
            await client.session_info()
        assert (early.value.code, early.value.number) == ("not_initialized", -32002)
        info = await client.initialize(client={"name": "journey"}, attend=True)
        assert info["protocol_version"] == "1"
        events = client.events()
        opened = await client.conversation_open(title="helper")
        asking = asyncio.ensure_future(
            client.conversation_message(conversation_id=opened["conversation_id"], text="go")
        )
        seen: list[str] = []
        async for event in events:
            seen.append(event["type"])
            if event["type"] == "approval_request":
                resolved = await client.approval_resolve(approval_id=event["data"]["approval_id"], decision="deny")
                assert resolved["resolved"]
            if event["type"] == "task_complete":
                break
        reply = await asking
        assert (reply["status"], reply["last_assistant_message"]) == ("completed", "done")
        assert {"task_started", "approval_resolved", "tool_call_end", "agent_message"} <= set(seen)
        with pytest.raises(RpcError) as refused:
            await client.conversation_steer(conversation_id=opened["conversation_id"], text="faster")
        assert (refused.value.code, refused.value.number) == ("not_running", -32000)
        with pytest.raises(RpcError) as unknown:
            await client.conversation_history(conversation_id="nowhere")
        assert unknown.value.code == "not_found"


async def test_over_websocket_to_a_server(tmp_path: Path) -> None:
    from tertulia_client import connect

    with serving(tmp_path) as (url, token):
        await journey(connect(url, token))


async def test_over_standard_streams_to_an_app_server_of_its_own(tmp_path: Path) -> None:
    from tertulia_client import start

    await journey(start(app_server(tmp_path), env=surroundings(tmp_path)))


async def test_what_waits_is_told_when_the_server_is_gone(tmp_path: Path) -> None:
    from tertulia_client import ConnectionClosedError, connect

    with serving(tmp_path) as (url, token):
        context = connect(url, token)
        client = await context.__aenter__()
        await client.initialize()
        events = client.events()
    try:
        async with asyncio.timeout(HANG_S):
            async for _ in events:
                pass
            with pytest.raises(ConnectionClosedError):
                await client.session_info()
    finally:
        await context.__aexit__(None, None, None)
