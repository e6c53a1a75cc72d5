"""Notifications over HTTP, to a real server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.protocol.events import WarningEvent
from tertulia.session.notifications.webhook import post_notification
from tertulia.testing import RecordedEvents, ScriptedModel
from tests.deadlines import HANG_S
from tests.tables import each_row

TOKEN = "canary-token-8c1e77"
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Hook:
    """A server that keeps what was posted, and answers the same to all."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.bodies: list[Any] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        self.heads.append(head)
        self.bodies.append(msgspec.json.decode(await reader.readexactly(length)))
        if self.answer is None:
            await reader.read()  # until the client leaves
        else:
            writer.write(self.answer)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def hook(answer: bytes | None = OK) -> AsyncGenerator[Hook]:
    made = Hook(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        yield made


async def test_an_address_gets_what_happened_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", TOKEN)
    async with hook() as server:
        notify = {"url": server.url, "bearer_token_env_var": "HOOK_TOKEN", "timeout_s": 60}
        settings = tertulia.Settings(model=ScriptedModel([f"Done, {TOKEN}."]), notify=notify, close_timeout_s=60)
        async with tertulia.Session.start(settings) as session:
            await session.root.message("go")
    assert f"Authorization: Bearer {TOKEN}" in server.heads[0]
    (body,) = server.bodies
    assert body["type"] == "complete"
    # What the model says of the token is redacted as everywhere.
    assert TOKEN not in body["text"]


async def test_an_address_that_refuses_is_warned_of_without_its_text() -> None:
    async with hook(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n") as server:
        settings = tertulia.Settings(model=ScriptedModel(["one"]), notify={"url": f"{server.url}?key={TOKEN}"})
        async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
            await session.root.message("go")
            warning = (await events.until("warning")).data
    assert isinstance(warning, WarningEvent)
    assert "answered with status 500" in warning.message
    assert TOKEN not in warning.message


@each_row(
    "answer, words",
    [
        (OK, None),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "status 302"),
        (b"", "without an answer"),
        (b"garbage\r\n\r\n", "does not speak HTTP"),
        (None, "did not answer within 0.3 s"),
    ],
)
async def test_every_answer_is_taken_or_explained(answer: bytes | None, words: str | None) -> None:
    async with asyncio.timeout(HANG_S), hook(answer) as server:
        # Only silence takes that long.
        failure = await post_notification(server.url, b"{}", {}, 0.3 if answer is None else HANG_S)
    assert (failure is None) == (words is None)
    assert words is None or words in (failure or "")


async def test_a_closed_port_is_explained() -> None:
    async with hook() as server:
        url = server.url
    failure = await post_notification(url, b"{}", {}, HANG_S)
    assert failure is not None
    assert "connection refused" in failure
