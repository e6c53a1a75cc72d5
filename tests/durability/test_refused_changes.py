"""What a full disk refuses has not happened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia.errors import StorageError
from tertulia.events.journal import NoJournal
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel


class FullDisk(NoJournal):
    """Writes nothing while it is full."""

    full = False

    def write(self, event: Any, storage: Any = None) -> Any:
        if not self.full:
            return None
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(StorageError("full"))
        return refused


@pytest.mark.parametrize("act", ["open", "fork", "set_context"])
async def test_a_change_that_was_refused_has_not_happened(act: str) -> None:
    """F5: whoever was told no finds everything as it was."""
    disk = FullDisk()
    settings = tertulia.Settings(model=ScriptedModel(["yes"]))
    async with Session.start(settings, journal=disk) as session:
        before = [(await conversation.context(), conversation.info.title) for conversation in session.conversations()]
        disk.full = True
        with pytest.raises(StorageError):
            if act == "open":
                await session.open()
            elif act == "fork":
                await session.root.fork()
            else:
                await session.root.set_context(title="new")
        disk.full = False
        assert [
            (await conversation.context(), conversation.info.title) for conversation in session.conversations()
        ] == before
