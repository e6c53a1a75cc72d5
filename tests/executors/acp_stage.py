"""Sessions whose conversations ACP agents of ours work for, and what those agents received."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tertulia
from tests.session.staging import Stage, stage

PROGRAM = str(Path(__file__).with_name("acp_fake.py"))
EVERY_MODE: Mapping[str, Any] = {"read-only": {}, "workspace-write": {}, "danger-full-access": {}}


def acp_table(mode: str = "good", **fields: Any) -> dict[str, Any]:
    """The fake, as a table of settings. It tells its number, which shall mean something to whoever hears it."""
    table = {"command": [sys.executable, "-S", PROGRAM, mode], "sandbox": EVERY_MODE, "pid_namespace": False}
    return {**table, **fields}


@asynccontextmanager
async def acp_stage(
    mode: str = "good", *, table: Mapping[str, Any] = {}, replies: Sequence[Any] = (), **fields: Any
) -> AsyncIterator[Stage]:
    """A session with one such agent, `acp:fake`. `replies`: those of its own model."""
    async with stage(*replies, acp={"fake": acp_table(mode, **table)}, **fields) as acting:
        yield acting


async def answer_of(conversation: tertulia.Conversation, text: str, **fields: Any) -> str:
    """What it answers."""
    reply = await conversation.message(text, **fields)
    assert reply.status == "completed", reply.error
    return reply.text or ""


async def agent_memory(conversation: tertulia.Conversation, text: str, **fields: Any) -> dict[str, Any]:
    """All that it was ever told in this session of its own."""
    return json.loads(await answer_of(conversation, text, **fields))


def received(home: Path, method: str) -> list[dict[str, Any]]:
    """The parameters of what it was sent."""
    lines = [json.loads(line) for line in (home / "received").read_text().splitlines()]
    return [line["params"] for line in lines if line.get("method") == method]
