"""A budget of a session: the next request is not sent, whoever would send it and in whichever life of the session."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.protocol.items import Usage
from tertulia.testing import ScriptedModel, ScriptedReply, call
from tests.contract.app_server import serving
from tests.contract.python_session import becomes, soon
from tests.contract.test_command_line import run, write_script
from tests.executors.agents import codex_table
from tests.session.staging import stage
from tests.tables import each_row

PRICE = {"scripted/inline": {"input": 1.0, "output": 1.0}}


def used(text: str, tokens: int = 100, *calls: Any, **more: Any) -> ScriptedReply:
    """An answer that costs so many tokens."""
    return ScriptedReply(text=text, tool_calls=calls, usage=Usage(tokens, 0, 0, 0, tokens), **more)


@tertulia.tool
def look() -> str:
    """Look."""
    return "nothing"


def start(model: ScriptedModel, **settings: Any) -> Any:
    return tertulia.Session.start(tertulia.Settings(**{"model": model, "tools": [look], **settings}))


@each_row(
    ("budget", "problem"),
    [
        ({"tokens": 150}, "200 of 150 tokens (budget.tokens)"),
        ({"usd": 0.00015}, "$0.0002 of $0.0001 (budget.usd)"),
    ],
)
async def test_a_task_ends_before_the_request_that_is_too_much(budget: dict[str, Any], problem: str) -> None:
    """Issue 24 (3): it stops before the next request, within a task too, and says so with a code of its own."""
    model = ScriptedModel([used("", 100, call("look")), used("", 100, call("look")), used("never")])
    async with start(model, budget=budget, model_prices=PRICE) as session:
        reply = await soon(session.root.message("go"))
        assert reply.status == "failed"
        assert reply.error is not None
        assert reply.error.code == "budget_exceeded"
        assert problem in reply.error.message
        assert len(model.requests) == 2
        again = await soon(session.root.message("go on"))
        assert again.error is not None
        assert again.error.code == "budget_exceeded"
        assert len(model.requests) == 2
        counts = (await session.metrics()).budget
        assert counts is not None
        assert (counts.used_tokens, round(counts.used_usd, 6)) == (200, 0.0002)


async def test_children_and_compactions_count_with_the_rest() -> None:
    delegate = used("", 40, call("conv_create", {"user_instruction": "help"}))
    model = ScriptedModel([delegate, used("helped", 40), used("done", 40), used("yes", 40), used("never")])
    async with start(model, budget={"tokens": 150}) as session:
        assert (await soon(session.root.message("a " * 4000))).text == "done"
        assert (await soon(session.root.message("b"))).text == "yes"
        other = await session.open()
        refused = (await soon(other.message("c"))).error
        assert refused is not None
        assert refused.code == "budget_exceeded"
        compaction = await soon(session.root.compact())
        assert not compaction.compacted
        assert "the budget of the session is used up" in (compaction.reason or "")
    assert len(model.requests) == 4


async def test_slots_overshoot_by_no_more_than_the_requests_in_flight() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([used("x", 100, gate=gate, repeat=True)])
    async with start(model, budget={"tokens": 100}, slots=4) as session:
        conversations = [await session.open() for _ in range(8)]
        messages = [asyncio.ensure_future(one.message("go")) for one in conversations]
        await becomes(lambda: len(model.requests) == 4)
        gate.set()
        replies = await soon(asyncio.gather(*messages))
        assert [reply.status for reply in replies].count("completed") == 4
        assert {reply.error.code for reply in replies if reply.error is not None} == {"budget_exceeded"}
    assert len(model.requests) == 4


async def test_money_is_refused_for_a_model_without_a_price_when_a_conversation_opens() -> None:
    """Issue 24 (3): not at the first request, and a change of the model is refused too."""
    with pytest.raises(errors.InvalidParamsError, match="the price of scripted/inline is not known"):
        async with start(ScriptedModel([]), budget={"usd": 1}):
            raise AssertionError
    async with start(ScriptedModel([]), budget={"usd": 1}, model_prices=PRICE) as session:
        with pytest.raises(errors.InvalidParamsError, match="the price of ollama/qwen3 is not known"):
            await session.open(model="ollama/qwen3")
        with pytest.raises(errors.InvalidParamsError, match="the price of ollama/qwen3 is not known"):
            await session.root.set_context(model="ollama/qwen3")
        with pytest.raises(errors.InvalidParamsError, match="backend codex does not say what its requests cost"):
            await session.open(backend="codex")
    async with start(ScriptedModel([]), budget={"tokens": 1}) as session:
        executor = await session.open(backend="codex")
        assert [text for text in executor.warnings if text.startswith("budget.tokens: of backend codex")]


async def test_a_session_without_any_model_may_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with tertulia.Session.start(tertulia.Settings(budget={"usd": 1})) as session:
        priced = await session.open(model="openai/gpt-5.2")
        assert (await priced.context()).model == "openai/gpt-5.2"


async def test_a_killed_session_goes_on_with_what_it_has_used(tmp_path: Path) -> None:
    """Over a resume after kill -9, and a model whose price is not known any more is not asked."""
    replies = [{"text": "one", "usage": {"input_tokens": 70, "total_tokens": 70}, "repeat": True}]
    async with serving(tmp_path, replies, "-c", "budget.tokens=100") as server:
        assert (await server.say("a"))["last_assistant_message"] == "one"
        id = (await server.call("session/info"))["session_id"]
        server.process.kill()
        await server.process.wait()
    async with serving(tmp_path, replies, "-c", "budget.tokens=100", "--resume", id) as server:
        assert (await server.call("metrics/get"))["budget"]["used_tokens"] == 70
        assert (await server.say("b"))["last_assistant_message"] == "one"
        last = await server.say("c")
        assert last["error"]["code"] == "budget_exceeded"
        assert "140 of 100 tokens" in last["error"]["message"]
        assert (await server.event("error"))["data"]["code"] == "budget_exceeded"
    async with serving(tmp_path, replies, "-c", "budget.tokens=500", "--resume", id) as server:
        assert (await server.say("d"))["last_assistant_message"] == "one", "a larger budget lets it go on"


async def test_an_executor_is_not_started_once_the_budget_is_used_up() -> None:
    """By the tokens that it reports, of children too; what cannot be counted in money is refused at the beginning."""
    tables = {"fake": codex_table()}
    async with stage(executors=tables, budget={"tokens": 15}) as acting:
        conversation = await acting.session.open(backend="command:fake")
        assert [await _ends(conversation, text) for text in ("one", "two", "three")] == [
            ("completed", None),
            ("completed", None),
            ("failed", "budget_exceeded"),
        ]
        assert acting.events.types().count("exec_command_begin") == 2
        # No other conversation of the session may spend more either.
        other = await acting.session.open(backend="command:fake")
        assert await _ends(other, "four") == ("failed", "budget_exceeded")
        assert acting.events.types().count("exec_command_begin") == 2
    async with stage(executors=tables, budget={"usd": 1.0}, model_prices=PRICE) as acting:
        before = len(acting.session.conversations())
        with pytest.raises(errors.InvalidParamsError, match="backend command:fake does not say what its requests cost"):
            await acting.session.open(backend="command:fake")
        assert len(acting.session.conversations()) == before


async def _ends(conversation: tertulia.Conversation, text: str) -> tuple[str, str | None]:
    reply = await soon(conversation.message(text))
    return reply.status, None if reply.error is None else reply.error.code


def test_exec_says_that_the_budget_is_used_up(tmp_path: Path) -> None:
    tool = {"tool_calls": [{"name": "update_plan", "arguments": {"plan": []}}], "usage": {"total_tokens": 50}}
    model = write_script(tmp_path, [tool, "never"])
    ran = run(tmp_path, "exec", "-m", model, "-c", "budget.tokens=10", "Go")
    assert ran.code == 1
    assert "the budget of the session is used up: 50 of 10 tokens" in ran.err
    as_json = run(tmp_path, "exec", "--json", "-m", model, "-c", "budget.tokens=10", "Go")
    assert "budget_exceeded" in as_json.out
    assert all(isinstance(json.loads(line), dict) for line in as_json.out.splitlines())
    doctor = run(tmp_path, "doctor", "-m", model, "-c", "budget.tokens=10")
    assert [line.split() for line in doctor.out.splitlines() if "budget.tokens" in line] == [
        ["budget.tokens", "10", "-c"]
    ]
