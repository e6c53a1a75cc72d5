"""A directory that is not there is refused before anything begins in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from tertulia.errors import InvalidParamsError
from tertulia.session.host import Host
from tertulia.session.operations import call
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.workspace import check_directory_exists
from tertulia.testing import ScriptedModel


def no_directories(place: Path) -> list[str]:
    """Paths of every kind at which there is none."""
    (place / "file").write_text("")
    (place / "dangling").symlink_to(place / "nothing")
    return [str(place / "nope"), str(place / "file"), str(place / "dangling"), "/\udcff", "/" + "x" * 5_000, "/a\0b"]


def test_only_a_directory_is_one(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path)
    for fine in (None, UNSET, str(tmp_path), str(tmp_path / "linked"), "relative"):
        check_directory_exists(fine)
    for path in no_directories(tmp_path):
        with pytest.raises(InvalidParamsError, match="is not a directory") as refused:
            check_directory_exists(path)
        assert len(refused.value.message) < 300


async def test_no_session_and_no_conversation_begins_where_there_is_no_directory(tmp_path: Path) -> None:
    """Issue 10, S004-32: every check precedes every effect; what was there stays as it was."""
    host = Host(Settings(model=ScriptedModel(["hello"]), cwd=str(tmp_path)))
    try:
        own = await host.start()
        conversation = await own.open(title="other")

        async def standing() -> Any:
            return [session.id for session in host.sessions], [
                conversation.info for conversation in own.conversations()
            ]

        before, context, seq = await standing(), await conversation.context(), own.parts.bus.last_seq
        for cwd in no_directories(tmp_path):
            for name, params in (
                ("session/start", {}),
                ("conversation/open", {"title": "x"}),
                ("conversation/open", {"agent": {"name": "x"}}),
                ("conversation/set_context", {"conversation_id": conversation.id}),
            ):
                with pytest.raises(InvalidParamsError, match="cwd"):
                    await call(host, own, name, {**params, "cwd": cwd})
        assert await standing() == before
        assert await conversation.context() == context
        assert own.parts.bus.last_seq == seq, "nobody was told anything"
        opened = await call(host, own, "conversation/open", {"cwd": str(tmp_path)})
        assert opened.answer.conversation_id
    finally:
        await host.close()


async def test_a_session_of_the_past_comes_back_though_its_directory_is_gone(tmp_path: Path) -> None:
    """What was said there can still be read."""
    gone = tmp_path / "gone"
    gone.mkdir()
    async with Session(Settings(model=ScriptedModel(["hello"]), cwd=str(gone))) as session:
        await session.root.message("hi")
    gone.rmdir()
    async with Session(Settings(model=ScriptedModel(["again"])), resumed=session.id) as back:
        assert [entry.text for entry in await back.root.history()] == ["hi", "hello"]
        assert back.parts.conversations.root.terms.cwd == str(gone)
