"""Our MCP server in this process, and the SDK's own client to it, in either era."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client

from tertulia.mcp.serve.endpoint import load_sdk
from tertulia.scheduler.nursery import Nursery
from tertulia.server.mcp.conversation_server import build_conversation_server
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tests.server.client import model

ERAS = ("legacy", "auto")
"""Of the handshake, and without one."""


class Stage:
    """A client, the host behind its server, and what it was asked and told."""

    def __init__(self, client: Client, host: Host) -> None:
        self.client = client
        self.host = host
        self.asked: list[Any] = []
        self.progress: list[tuple[float, str | None]] = []

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Its structured content; a refusal is an assertion."""
        answer = await self.client.call_tool(tool, arguments, progress_callback=self._heard)
        assert not answer.is_error, answer
        return answer.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The words of a refusal."""
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error
        return answer.content[0].text  # type: ignore[union-attr]

    async def _heard(self, done: float, total: float | None, message: str | None) -> None:
        self.progress.append((done, message))


@asynccontextmanager
async def mcp_stage(
    era: str = "auto",
    replies: Any = ("hello",),
    answer: Callable[[Any], Any] | None = None,
    news: Any = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """`answer` says what the client's person says when asked. `news`: is told what the client did not ask for."""
    load_sdk()
    host, nursery = Host(Settings(model=model(replies), **settings)), Nursery()
    broker = build_conversation_server(host, nursery.start)
    questions: list[Any] = []

    async def elicit(context: Any, params: Any) -> Any:
        questions.append(params)
        assert answer is not None
        return answer(params)

    try:
        handler = {} if answer is None else {"elicitation_callback": elicit}
        if news is not None:
            handler["message_handler"] = news
        async with Client(broker.server, mode=era, **handler) as client:  # type: ignore[arg-type]
            stage = Stage(client, host)
            stage.asked = questions
            yield stage
    finally:
        broker.close()
        await host.close()
        await nursery.close(2)
