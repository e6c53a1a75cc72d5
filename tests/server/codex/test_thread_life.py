"""Threads that get a name, are closed, or deleted."""

from __future__ import annotations

from pathlib import Path

from tertulia.session.settings.settings import current_environment
from tests.server.codex_client import codex_stage, scripted


def stored() -> list[str]:
    return sorted(path.name for path in (current_environment().home / "sessions").glob("*.db"))


async def test_a_thread_gets_a_name_and_keeps_it(tmp_path: Path) -> None:
    """Issue 25 (1): `thread/name/set`, read back here and in a later run."""
    async with codex_stage(scripted("one"), tmp_path) as at:
        thread = await at.client.start()
        assert await at.client.call("thread/name/set", threadId=thread, name=" my  thread ") == {}
        assert await at.client.told("thread/name/updated") == {"threadId": thread, "threadName": "my thread"}
        assert (await at.client.call("thread/read", threadId=thread))["thread"]["name"] == "my thread"
        await at.client.turn(thread, "hi")
        refused = await at.client.fail("thread/name/set", threadId=thread, name="x" * 10_000)
        assert refused["code"] == -32600
        assert "thread not found" in (await at.client.fail("thread/name/set", threadId="nope", name="x"))["message"]
        assert (await at.client.call("thread/read", threadId=thread))["thread"]["name"] == "my thread"
        assert len(at.client.all("thread/name/updated")) == 1
    async with codex_stage(scripted(), tmp_path) as at:
        assert [listed["name"] for listed in (await at.client.call("thread/list"))["data"]] == ["my thread"]


async def test_a_stored_thread_says_where_it_is_kept(tmp_path: Path) -> None:
    """Issue 25 (1): the SDK for Python takes a thread without a path for one that is not kept."""
    async with codex_stage(scripted("one"), tmp_path) as at:
        lasting, passing = await at.client.start(), await at.client.start(ephemeral=True)
        await at.client.turn(lasting, "hi")
        shown = (await at.client.call("thread/read", threadId=lasting))["thread"]
        assert Path(shown["path"]).name == f"{lasting}.db"
        assert Path(shown["path"]).exists()
        assert (await at.client.call("thread/read", threadId=passing))["thread"]["path"] is None


async def test_a_deleted_thread_leaves_nothing(tmp_path: Path) -> None:
    """Issue 25 (1): `thread/delete`, of one that runs and of one that is stored."""
    async with codex_stage(scripted("one", "two"), tmp_path) as at:
        first, second = await at.client.start(), await at.client.start()
        await at.client.turn(first, "hi")
        await at.client.turn(second, "hi")
        assert await at.client.call("thread/delete", threadId=first) == {}
        assert await at.client.told("thread/deleted") == {"threadId": first}
        assert [session.id for session in at.host.sessions] == [second]
        await at.client.call("thread/unsubscribe", threadId=second)
        assert stored() == [f"{second}.db"]
        await at.client.call("thread/delete", threadId=second)
        assert stored() == []
        for id in (first, "../../etc/passwd", ""):
            assert (await at.client.fail("thread/delete", threadId=id))["code"] == -32600
        assert len(at.client.all("thread/deleted")) == 2


async def test_a_thread_that_is_left_is_closed_and_can_be_resumed(tmp_path: Path) -> None:
    """Issue 25 (1): `thread/unsubscribe`."""
    async with codex_stage(scripted("one"), tmp_path) as at:
        thread = await at.client.start()
        await at.client.turn(thread, "hi")
        assert (await at.client.call("thread/unsubscribe", threadId=thread)) == {"status": "unsubscribed"}
        assert await at.client.told("thread/closed") == {"threadId": thread}
        assert not at.host.sessions
        assert (await at.client.call("thread/unsubscribe", threadId=thread)) == {"status": "notLoaded"}
        back = await at.client.call("thread/resume", threadId=thread)
        assert len(back["thread"]["turns"]) == 1
