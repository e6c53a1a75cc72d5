"""One thread: turns that wait, are steered, stopped, change its terms or only make it shorter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tertulia.testing import call, fail
from tests.deadlines import HANG_S
from tests.server.codex_client import codex_stage, scripted


def held() -> tuple[Any, asyncio.Event, asyncio.Event]:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> str:
        arrived.set()
        await go.wait()
        return "at last"

    return slow, arrived, go


def words(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


async def test_a_turn_that_runs_is_steered_by_who_knows_its_name(tmp_path: Path) -> None:
    """Issue 10 (5): turn/steer has a precondition."""
    slow, arrived, go = held()
    async with codex_stage(scripted(slow, "and more"), tmp_path) as at:
        thread = await at.client.start()
        none = await at.client.fail("turn/steer", threadId=thread, expectedTurnId="none", input=words("x"))
        assert none["message"] == "no active turn to steer"
        begun = await at.client.call("turn/start", threadId=thread, input=words("hi"), clientUserMessageId="mine")
        turn = begun["turn"]["id"]
        await asyncio.wait_for(arrived.wait(), HANG_S)
        wrong = await at.client.fail("turn/steer", threadId=thread, expectedTurnId="other", input=words("x"))
        assert turn in wrong["message"]
        picture = [{"type": "image", "url": "https://example.org/x.png"}]
        assert await at.client.fail("turn/steer", threadId=thread, expectedTurnId=turn, input=picture)
        steered = await at.client.call("turn/steer", threadId=thread, expectedTurnId=turn, input=words("faster"))
        assert steered == {"turnId": turn}
        go.set()
        await at.client.ended(turn)
        messages = at.client.items("userMessage")
        assert [(item["content"][0]["text"], item["clientId"]) for item in messages] == [
            ("hi", "mine"),
            ("faster", None),
        ]
        texts = [entry.text for entry in await at.session(thread).root.history()]
        assert "faster" in texts


async def test_turns_are_read_as_they_stand_and_as_they_ended(tmp_path: Path) -> None:
    """Issue 10 (5): thread/read; what was steered into a turn belongs to it, in a fork too."""
    slow, arrived, go = held()
    async with codex_stage(scripted(slow, "and more", {"error": "boom"}), tmp_path) as at:
        thread = await at.client.start()
        turn = (await at.client.call("turn/start", threadId=thread, input=words("hi")))["turn"]["id"]
        await asyncio.wait_for(arrived.wait(), HANG_S)
        await at.client.call("turn/steer", threadId=thread, expectedTurnId=turn, input=words("faster"))
        (runs,) = (await at.client.call("thread/read", threadId=thread, includeTurns=True))["thread"]["turns"]
        assert (runs["id"], runs["status"]) == (turn, "inProgress")
        go.set()
        await at.client.ended(turn)
        failed = await at.client.turn(thread, "fail")
        assert failed["status"] == "failed"
        read = (await at.client.call("thread/read", threadId=thread, includeTurns=True))["thread"]["turns"]
        assert [(turn["id"], turn["status"]) for turn in read] == [(turn, "completed"), (failed["id"], "failed")]
        assert [item["type"] for item in read[0]["items"]].count("userMessage") == 2
        assert (read[1]["error"], read[1]["durationMs"]) == (failed["error"], failed["durationMs"])
        fork = (await at.client.call("thread/fork", threadId=thread, lastTurnId=turn))["thread"]["id"]
        texts = [entry.text for entry in await at.session(fork).root.history()]
        assert texts[-1] == "and more"
        assert "fail" not in texts


async def test_a_turn_that_waits_can_be_stopped_before_it_begins(tmp_path: Path) -> None:
    """Issue 10 (5): turn/interrupt; every turn that was accepted ends once."""
    slow, arrived, go = held()
    async with codex_stage(scripted(slow), tmp_path) as at:
        thread = await at.client.start()
        first = (await at.client.call("turn/start", threadId=thread, input=words("hi")))["turn"]["id"]
        await asyncio.wait_for(arrived.wait(), HANG_S)
        second = (await at.client.call("turn/start", threadId=thread, input=words("later")))["turn"]["id"]
        await at.client.call("turn/interrupt", threadId=thread, turnId=second)
        assert (await at.client.ended(second))["status"] == "interrupted"
        go.set()
        assert (await at.client.ended(first))["status"] == "completed"
        assert [turn["turn"]["id"] for turn in at.client.all("turn/completed")] == [second, first]


async def test_a_turn_that_fails_says_why(tmp_path: Path) -> None:
    """Issue 10 (5): the error comes before the end, and in it."""
    async with codex_stage(scripted(fail("the provider is gone")), tmp_path) as at:
        turn = await at.client.turn(await at.client.start(), "hi")
        assert turn["status"] == "failed"
        assert "the provider is gone" in turn["error"]["message"]
        assert at.client.all("error")[-1] == {**at.client.all("error")[-1], "willRetry": False}


async def test_what_a_turn_changes_holds_for_the_next(tmp_path: Path) -> None:
    """Issue 10 (5): overrides are sticky."""
    inner = tmp_path / "inner"
    inner.mkdir()
    async with codex_stage(scripted("one", "two"), tmp_path) as at:
        thread = await at.client.start()
        policy = {"type": "readOnly", "networkAccess": True}
        await at.client.turn(thread, "hi", cwd=str(inner), sandboxPolicy=policy, approvalPolicy="never")
        await at.client.turn(thread, "again")
        opened = await at.client.call("thread/resume", threadId=thread)
        assert (opened["sandbox"], opened["approvalPolicy"]) == ({"type": "readOnly", "networkAccess": False}, "never")


async def test_an_answer_keeps_to_the_schema_that_a_turn_names(tmp_path: Path) -> None:
    """Issue 10 (5): outputSchema goes to the model."""
    seen: list[Any] = []

    def look(request: Any) -> str:
        seen.append(request)
        return "{}"

    async with codex_stage(scripted(look), tmp_path) as at:
        turn = await at.client.turn(await at.client.start(), "hi", outputSchema={"type": "object"})
        assert turn["status"] == "completed"
        assert seen


async def test_compacting_is_a_turn_of_its_own(tmp_path: Path) -> None:
    """Issue 10 (5): thread/compact/start."""
    async with codex_stage(scripted("word " * 2_000, "two", "in short: greetings"), tmp_path) as at:
        thread = await at.client.start()
        for number in range(2):
            await at.client.turn(thread, f"hi {number}")
        assert await at.client.call("thread/compact/start", threadId=thread) == {}
        await at.client.until(lambda m: len(at.client.all("turn/completed")) == 3)
        assert len(at.client.items("contextCompaction")) == 1
        assert at.client.all("turn/completed")[-1]["turn"]["status"] == "completed"
        shown = await at.client.call("thread/read", threadId=thread, includeTurns=True)
        assert shown["thread"]["turns"][0]["items"][0]["type"] == "contextCompaction"


async def test_where_there_is_nothing_to_compact_that_is_said(tmp_path: Path) -> None:
    """Issue 10 (5): the turn ends all the same."""
    async with codex_stage(scripted("in short: nothing"), tmp_path) as at:
        thread = await at.client.start()
        await at.client.call("thread/compact/start", threadId=thread)
        ended = await at.client.told("turn/completed")
        assert ended["turn"]["status"] in ("completed", "failed")
        assert at.client.all("warning")
        assert not at.client.items("contextCompaction")


async def test_a_model_without_a_provider_is_one_of_the_threads_own(tmp_path: Path) -> None:
    """Issue 10 (5): clients of Codex name models so."""
    async with codex_stage(scripted("one"), tmp_path) as at:
        thread = await at.client.start()
        assert (await at.client.turn(thread, "hi", model="tour"))["status"] == "completed"
        assert (await at.client.call("thread/resume", threadId=thread))["model"] == "scripted/tour"


async def test_a_plan_and_a_child_show_in_the_turn(tmp_path: Path) -> None:
    """Issue 10 (5): a task that hands over and goes on is one turn; what the child says stays with it."""
    steps = [{"step": "ask", "status": "in_progress"}, {"step": "tell", "status": "pending"}]
    script = scripted(
        call("update_plan", {"plan": steps}, "p1"),
        call("conv_create", {"user_instruction": "help"}, "c1"),
        "child done",
        "root done",
    )
    async with codex_stage(script, tmp_path) as at:
        turn = await at.client.turn(await at.client.start(), "delegate")
        assert [item["text"] for item in turn["items"]] == ["root done"]
        (plan,) = at.client.all("turn/plan/updated")
        assert [step["status"] for step in plan["plan"]] == ["inProgress", "pending"]
        assert len(at.client.all("turn/started")) == len(at.client.all("turn/completed")) == 1
        assert [item["tool"] for item in at.client.items("dynamicToolCall")] == ["conv_create"]
        assert [item["text"] for item in at.client.items("agentMessage")] == ["root done"]
