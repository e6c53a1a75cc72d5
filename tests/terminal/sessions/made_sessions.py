"""Stored sessions for tests of the picker and of replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tertulia import Session, Settings
from tertulia.testing import ScriptedModel

DELEGATION = (
    {"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "Review a.py", "title": "reviewer"}}]},
    "Looks right.",
    "The reviewer says it looks right.",
)


async def store_session(work: Path, *replies: Any, messages: tuple[str, ...] = ("hello",), **settings: Any) -> str:
    """The id of a session in which these messages were answered."""
    model = ScriptedModel(list(replies))
    async with Session.start(Settings(model=model, cwd=str(work), **settings)) as session:
        for message in messages:
            await session.root.message(message)
        return session.id
