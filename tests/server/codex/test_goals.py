"""The goal of a thread: turns follow each other until the model, a budget or a person ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tertulia.server.codex.goals import MAX_TURNS, SetGoal, ThreadGoal
from tertulia.testing import call, fail
from tests.server.codex_client import CodexStage, codex_stage, scripted

DONE = call("update_goal", {"status": "complete"})


async def statuses(at: CodexStage, last: str) -> list[str]:
    """What the client was told of the goal, up to that status."""
    await at.client.told("thread/goal/updated", lambda p: p["goal"]["status"] == last)
    return [params["goal"]["status"] for params in at.client.all("thread/goal/updated")]


async def test_turns_follow_until_the_model_says_that_the_goal_is_reached(tmp_path: Path) -> None:
    """Issue 25 (1): `thread/goal/set` begins the first turn by itself."""
    requests: list[Any] = []

    def first(request: Any) -> str:
        requests.append(request)
        return "half done"

    async with codex_stage(scripted(first, DONE, "all done"), tmp_path) as at:
        thread = await at.client.start()
        assert (await at.client.call("thread/goal/get", threadId=thread)) == {"goal": None}
        goal = (await at.client.call("thread/goal/set", threadId=thread, objective="Cover it"))["goal"]
        assert (goal["objective"], goal["status"], goal["tokenBudget"]) == ("Cover it", "active", None)
        assert await statuses(at, "complete") == ["active", "complete"]
        await at.client.until(lambda m: len(at.client.all("turn/completed")) == 2)
        assert [item["text"] for item in at.client.items("agentMessage")] == ["half done", "all done"]
        assert not at.client.items("userMessage"), "what a goal asks is no message of the person"
        goal = (await at.client.call("thread/goal/get", threadId=thread))["goal"]
        assert (goal["status"], goal["tokensUsed"] > 0) == ("complete", True)
        assert "<objective>\nCover it\n</objective>" in "".join(item.text for item in list(requests[0].items)[-1:])
        # Nothing begins by itself any more.
        assert at.session(thread).activity.current_task is None
        assert (await at.client.call("thread/goal/clear", threadId=thread)) == {"cleared": True}
        assert (await at.client.call("thread/goal/clear", threadId=thread)) == {"cleared": False}
        assert len(at.client.all("thread/goal/cleared")) == 1


async def test_a_failed_turn_blocks_the_goal_and_an_interrupted_one_pauses_it(tmp_path: Path) -> None:
    """Issue 25 (1): no turn follows, until the client makes it active again."""
    async with codex_stage(scripted(fail("no answer"), DONE, "done"), tmp_path) as at:
        thread = await at.client.start()
        await at.client.call("thread/goal/set", threadId=thread, objective="Cover it")
        assert await statuses(at, "blocked") == ["active", "blocked"]
        assert at.session(thread).activity.current_task is None
        await at.client.call("thread/goal/set", threadId=thread, status="active")
        assert await statuses(at, "complete") == ["active", "blocked", "active", "complete"]


async def test_a_refused_goal_leaves_the_thread_as_it_was(tmp_path: Path) -> None:
    """Issue 25 (1), HARDENING D."""
    async with codex_stage(scripted(), tmp_path) as at:
        thread = await at.client.start()
        for wrong, words in (
            ({"status": "active"}, "has no goal"),
            ({"objective": " "}, "1 to 4,000"),
            ({"objective": "x" * 4_001}, "1 to 4,000"),
            ({"objective": "x", "tokenBudget": 0}, "tokenBudget"),
            ({"objective": "x", "status": "done"}, "status"),
            ({"objective": 5}, "objective"),
        ):
            refused = await at.client.fail("thread/goal/set", threadId=thread, **wrong)
            assert (refused["code"], words in refused["message"]) == (-32600, True), refused
        for method in ("thread/goal/get", "thread/goal/clear"):
            assert "thread not found" in (await at.client.fail(method, threadId="nope"))["message"]
        assert (await at.client.call("thread/goal/get", threadId=thread)) == {"goal": None}
        assert not at.client.all("thread/goal/updated")
        assert not at.client.all("turn/started")


def goal_of(**fields: Any) -> tuple[ThreadGoal, list[str]]:
    updates: list[str] = []

    def submit(text: str) -> str:
        raise AssertionError(text)

    goal = ThreadGoal("t", lambda method, params: updates.append(params["goal"]["status"]), submit)
    goal.set(SetGoal(thread_id="t", objective="Cover it", **fields))
    return goal, updates


def test_a_budget_of_tokens_ends_a_goal() -> None:
    """Issue 25 (1)"""
    goal, updates = goal_of(token_budget=100)
    goal.spend(99)
    assert goal.turn_ended("t", "completed", 1_500)
    goal.spend(1)
    assert not goal.turn_ended("t", "completed", 1_500)
    shown = goal.shown()
    assert shown is not None
    assert (updates, shown["tokensUsed"], shown["timeUsedSeconds"]) == (["budgetLimited"], 100, 2)
    goal.spend(5)
    assert goal.shown() == shown, "what is used after the end does not count"
    assert "no goal" in goal.report("complete")


def test_a_goal_without_a_budget_has_a_most_of_turns() -> None:
    """A model that never says that it is done costs no fortune."""
    sent: list[str] = []

    def submit(text: str) -> str:
        sent.append(text)
        return f"turn {len(sent)}"

    updates: list[str] = []
    goal = ThreadGoal("t", lambda method, params: updates.append(params["goal"]["status"]), submit)
    goal.set(SetGoal(thread_id="t", objective="Cover it"))
    goal.go_on()
    while goal.turn_ended(f"turn {len(sent)}", "completed", 0):
        goal.go_on()
    assert (len(sent), updates) == (MAX_TURNS, ["usageLimited"])
    assert len(set(sent)) == 2, "the first turn is told more"
    goal.go_on()
    assert len(sent) == MAX_TURNS


def test_an_interrupted_turn_pauses_a_goal() -> None:
    goal, updates = goal_of()
    assert not goal.turn_ended("t", "interrupted", 0)
    assert updates == ["paused"]


async def test_a_goal_that_is_set_twice_has_one_turn_at_a_time(tmp_path: Path) -> None:
    """Issue 25 (1): doubled requests, and a turn of the client before that of the goal."""
    async with codex_stage(scripted("half", DONE, "done"), tmp_path) as at:
        thread = await at.client.start()
        for request in [at.client.ask("thread/goal/set", threadId=thread, objective="Cover it") for _ in range(5)]:
            assert "result" in await at.client.answer(request)
        await statuses(at, "complete")
        await at.client.until(lambda m: len(at.client.all("turn/completed")) == 2)
        assert len(at.client.all("turn/started")) == 2
        assert at.session(thread).activity.current_task is None
