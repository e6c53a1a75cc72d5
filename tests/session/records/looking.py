"""What tests of stored sessions share: a session with all that a screen shows, and a client that only looks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

import tertulia
from tertulia import Session, Settings
from tertulia.protocol.events import Event
from tertulia.session.operations import call
from tertulia.testing import ScriptedModel, say
from tertulia.testing import call as tool_call

ASKS = say("", tool_call("conv_create", {"user_instruction": "What is 2 + 2?", "title": "sums"}, "c1"))


class Looker:
    """Calls operations as an observer does, which has no session of its own, and reads answers as a wire has them."""

    def __init__(self) -> None:
        self.host = tertulia.Host(Settings())

    async def __call__(self, name: str, **params: Any) -> Any:
        answer = (await call(self.host, None, f"record/{name}", params)).answer
        return json.loads(msgspec.json.encode(answer))


def home() -> Path:
    return Path(os.environ["TERTULIA_HOME"])


def files_in_home() -> Mapping[str, tuple[int, int]]:
    """Every file with its size and time: to see that looking changes nothing."""
    found = (path for path in home().rglob("*") if path.is_file() and path.name != "index.db")
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


async def recorded(*replies: Any, messages: int = 1, **settings: Any) -> tuple[Session, list[Event]]:
    """A session that has ended, and the events that a client got of it, those that stay."""
    model = ScriptedModel([*replies, *([say("ok", repeat=True)] if messages > 1 else [])])
    session = Session.start(Settings(model=model, **settings))
    async with session:
        events = session.events(after=0)
        for number in range(messages):
            await session.root.message(f"question {number}")
    return session, [event async for event in events if event.seq is not None]
