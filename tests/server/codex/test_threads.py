"""Threads of one client: begun, listed, read, resumed, forked and put away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tertulia.session.settings.settings import current_environment
from tertulia.testing import fail
from tests.server.codex_client import codex_stage, scripted


async def test_two_threads_never_wait_for_each_other(tmp_path: Path) -> None:
    """Issue 10 (5): several threads are several sessions of one host."""
    never = asyncio.Event()

    async def slow(request: Any) -> str:
        await never.wait()
        return "too late"

    async with codex_stage(scripted(slow, "quick"), tmp_path) as at:
        first, second = await at.client.start(), await at.client.start()
        assert first != second
        begun = await at.client.call("turn/start", threadId=first, input=[{"type": "text", "text": "hi"}])
        await at.client.told("item/completed", lambda p: p["threadId"] == first)
        assert (await at.client.turn(second, "hi"))["items"][0]["text"] == "quick"
        assert sorted((await at.client.call("thread/loaded/list"))["data"]) == sorted([first, second])
        await at.client.call("turn/interrupt", threadId=first, turnId=begun["turn"]["id"])
        assert (await at.client.ended(begun["turn"]["id"]))["status"] == "interrupted"


async def test_a_stored_thread_is_listed_read_and_gone_on_with(tmp_path: Path) -> None:
    """Issue 10 (5): thread/list, thread/read, thread/resume."""
    async with codex_stage(scripted("one"), tmp_path) as at:
        thread = await at.client.start()
        await at.client.turn(thread, "  first   words ")
    async with codex_stage(scripted("two"), tmp_path) as at:
        (listed,) = (await at.client.call("thread/list"))["data"]
        assert (listed["id"], listed["preview"], listed["status"]) == (thread, "first words", {"type": "notLoaded"})
        assert not (await at.client.call("thread/list", cwd="/elsewhere"))["data"]
        assert (await at.client.call("thread/list", cwd=[str(tmp_path)]))["data"]
        read = (await at.client.call("thread/read", threadId=thread, includeTurns=True))["thread"]
        assert [item["type"] for item in read["turns"][0]["items"]] == ["userMessage", "agentMessage"]
        assert not at.host.sessions
        back = await at.client.call("thread/resume", threadId=thread)
        assert back["thread"]["turns"] == read["turns"]
        assert back["thread"]["status"] == {"type": "idle"}
        assert not at.client.all("thread/started")
        assert (await at.client.turn(thread, "second"))["items"][0]["text"] == "two"
        shown = await at.client.call("thread/resume", threadId=thread, excludeTurns=True)
        assert shown["thread"]["turns"] == []


async def test_a_thread_that_comes_back_knows_how_its_turns_ended_and_what_they_cost(tmp_path: Path) -> None:
    """Issue 10 (5): as Codex does, whoever reads it."""
    async with codex_stage(scripted("one", fail("no answer")), tmp_path) as at:
        thread = await at.client.start()
        for text in ("first", "second"):
            await at.client.turn(thread, text)
        before = at.client.all("thread/tokenUsage/updated")[-1]["tokenUsage"]["total"]["totalTokens"]
    async with codex_stage(scripted("three"), tmp_path) as at:
        read = (await at.client.call("thread/read", threadId=thread, includeTurns=True))["thread"]["turns"]
        assert [turn["status"] for turn in read] == ["completed", "failed"]
        assert (await at.client.call("thread/resume", threadId=thread))["thread"]["turns"] == read
        await at.client.turn(thread, "third")
        usage = at.client.all("thread/tokenUsage/updated")[-1]["tokenUsage"]
        assert usage["total"]["totalTokens"] == before + usage["last"]["totalTokens"]
        fork = await at.client.call("thread/fork", threadId=thread, lastTurnId=read[1]["id"])
        assert [turn["items"][0]["content"][0]["text"] for turn in fork["thread"]["turns"]] == ["first", "second"]


async def test_a_page_ends_where_it_was_asked_to_and_the_next_goes_on(tmp_path: Path) -> None:
    """Issue 10 (5): cursors."""
    async with codex_stage(scripted("a", "b", "c"), tmp_path) as at:
        threads = [await at.client.start() for _ in range(3)]
        for thread in threads:
            await at.client.turn(thread, "hi")
        seen, cursor = [], None
        for _ in range(3):
            page = await at.client.call("thread/list", limit=1, cursor=cursor)
            seen += [thread["id"] for thread in page["data"]]
            cursor = page["nextCursor"]
        assert sorted(seen) == sorted(threads)
        assert (await at.client.call("thread/list", limit=1, cursor=cursor))["data"] == [] if cursor else True
        assert (await at.client.fail("thread/list", cursor="nonsense"))["code"] == -32600


async def test_a_fork_begins_with_all_of_it_or_with_the_turns_up_to_one(tmp_path: Path) -> None:
    """Issue 10 (5): thread/fork."""
    async with codex_stage(scripted("one", "two", "three"), tmp_path) as at:
        thread = await at.client.start()
        first = await at.client.turn(thread, "first")
        await at.client.turn(thread, "second")
        whole = (await at.client.call("thread/fork", threadId=thread))["thread"]
        part = (await at.client.call("thread/fork", threadId=thread, lastTurnId=first["id"]))["thread"]
        assert whole["forkedFromId"] == part["forkedFromId"] == thread
        assert [len(whole["turns"]), len(part["turns"])] == [2, 1]
        own = (await at.client.call("thread/read", threadId=thread, includeTurns=True))["thread"]
        assert own["turns"][0]["id"] == first["id"]
        assert (await at.client.fail("thread/fork", threadId=thread, lastTurnId="none"))["code"] == -32600
        assert (await at.client.turn(part["id"], "go on"))["status"] == "completed"
        stored = part["turns"][0]["id"]
        await at.client.call("thread/archive", threadId=part["id"])
        again = await at.client.call("thread/fork", threadId=part["id"], lastTurnId=stored)
        assert len(again["thread"]["turns"]) == 1


async def test_what_is_put_away_is_not_listed_and_not_lost(tmp_path: Path) -> None:
    """Issue 10 (5): thread/archive; and back."""
    async with codex_stage(scripted("one", "two"), tmp_path) as at:
        thread = await at.client.start()
        await at.client.turn(thread, "hi")
        await at.client.call("thread/archive", threadId=thread)
        await at.client.told("thread/archived")
        assert at.client.all("thread/status/changed")[-1]["status"] == {"type": "notLoaded"}
        assert not at.host.sessions
        assert (await at.client.call("thread/list"))["data"] == []
        assert [t["id"] for t in (await at.client.call("thread/list", archived=True))["data"]] == [thread]
        assert "archived" in (await at.client.fail("thread/resume", threadId=thread))["message"]
        named = current_environment().home / "archived-threads"
        assert named.stat().st_mode & 0o777 == 0o600
        await at.client.call("thread/unarchive", threadId=thread)
        await at.client.told("thread/unarchived")
        await at.client.call("thread/resume", threadId=thread)
        assert (await at.client.turn(thread, "again"))["status"] == "completed"
        missing = await at.client.fail("thread/archive", threadId="00000000-0000-4000-8000-000000000000")
        assert missing["data"]["code"] == "not_found"
        assert len(at.host.sessions) == 1


async def test_a_client_gets_no_more_than_the_settings_allow_and_is_told(tmp_path: Path) -> None:
    """S000-32: rights only narrow."""
    async with codex_stage(scripted("hi", sandbox="read_only"), tmp_path) as at:
        opened = await at.client.call("thread/start", sandbox="danger-full-access", approvalPolicy="never")
        assert (opened["sandbox"]["type"], opened["approvalPolicy"]) == ("readOnly", "never")
        warned = await at.client.told("warning")
        assert "danger-full-access" in warned["message"]


async def test_of_an_ephemeral_thread_nothing_is_kept(tmp_path: Path) -> None:
    """S002: storage none."""
    async with codex_stage(scripted("secret answer"), tmp_path) as at:
        opened = await at.client.call("thread/start", ephemeral=True, developerInstructions="be a canary")
        assert opened["thread"]["ephemeral"]
        await at.client.turn(opened["thread"]["id"], "secret question")
    text = b"".join(path.read_bytes() for path in current_environment().home.rglob("*") if path.is_file())
    assert b"secret" not in text
    assert b"canary" not in text
