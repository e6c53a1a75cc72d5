"""`canvas/*` and `internal/*`: what operations answer."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError
from tertulia.session.answers import MessageAnswer, OpenAnswer
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.testing import call
from tests.session.agents_stage import EMPLOYEE, HTML
from tests.session.staging import Stage, stage
from tests.tables import each_row


async def ask(acting: Stage, method: str, **params: Any) -> Any:
    done = await operate(Host(acting.session.settings), acting.session, method, params)
    return getattr(done, "answer", done)


async def test_a_canvas_is_shown_listed_and_cleared() -> None:
    """S001-49; DESIGN, Fine print, Injector."""
    async with stage() as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        token = acting.parts.agent_registry.token(agent.id)
        assert (await ask(acting, "canvas/list")).canvases == []
        with pytest.raises(NotFoundError, match="shows nothing"):
            await ask(acting, "canvas/get", conversation_id=agent.id)
        called = await ask(acting, "internal/call", token=token, tool="canvas_update", arguments={"html": HTML})
        assert called.result == {"ok": True, "revision": 1}
        shown = await ask(acting, "canvas/get", conversation_id=agent.id)
        assert (shown.html, shown.title, shown.revision) == (HTML, None, 1)
        (listed,) = (await ask(acting, "canvas/list")).canvases
        assert (listed.conversation_id, listed.bytes, listed.revision) == (agent.id, len(HTML), 1)
        assert [(await ask(acting, "canvas/clear", conversation_id=agent.id)).cleared for _ in range(2)] == [
            True,
            False,
        ]
        assert (await ask(acting, "canvas/list")).canvases == []


@pytest.mark.parametrize("method", ["canvas/get", "canvas/clear"])
async def test_what_is_no_agent_has_no_canvas(method: str) -> None:
    """Unknown: not found."""
    async with stage() as acting:
        for conversation in ("root", "nobody"):
            with pytest.raises(NotFoundError):
                await ask(acting, method, conversation_id=conversation)


async def test_a_repo_agent_is_refused() -> None:
    """S001-49: it has no such tool, and could not draw if it had."""
    async with stage() as acting:
        agent = await acting.session.open(agent={"name": "ada", "archetype": "repo"})
        token = acting.parts.agent_registry.token(agent.id)
        with pytest.raises(NotFoundError, match="has no internal tool"):
            await ask(acting, "internal/call", token=token, tool="canvas_update", arguments={"html": HTML})
        with pytest.raises(InvalidParamsError, match="has no canvas"):
            acting.parts.agent_registry.canvases.update(agent.id, HTML)


async def test_whose_a_token_is() -> None:
    """S001-47."""
    async with stage() as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        owner = await ask(acting, "internal/validate_token", token=acting.parts.agent_registry.token(agent.id))
        assert (owner.agent_name, owner.session_id, owner.pid) == ("ada", agent.id, None)
        for token in ("", "0" * 64, 3, None):
            with pytest.raises(InvalidParamsError):
                await ask(acting, "internal/validate_token", token=token)
        with pytest.raises(InvalidParamsError):
            await ask(acting, "internal/validate_token")


@each_row(
    "arguments", [{"html": 3}, {"html": None}, {}, {"html": "x" * (512 * 1024 + 1)}, {"html": "ü" * (256 * 1024 + 1)},
                  {"html": "x", "title": 3}, {"html": "x", "title": "t" * 201}, {"html": "\ud800"}]
)  # fmt: skip
async def test_a_page_that_cannot_be_is_refused_and_the_one_before_stays(arguments: dict[str, Any]) -> None:
    """S001-49; issue 9, bad input: in bytes of UTF-8."""
    async with stage() as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        token = acting.parts.agent_registry.token(agent.id)
        await ask(acting, "internal/call", token=token, tool="canvas_update", arguments={"html": HTML})
        with pytest.raises(TertuliaError):
            await ask(acting, "internal/call", token=token, tool="canvas_update", arguments=arguments)
        shown = await ask(acting, "canvas/get", conversation_id=agent.id)
        assert (shown.html, shown.revision) == (HTML, 1)


async def test_an_answer_with_a_token_in_it_is_of_the_same_type_without_it() -> None:
    """S001-45: whatever the operation; an error too."""
    texts: list[str] = []
    replies = [lambda request: texts[0], lambda request: call(texts[0], {"x": texts[0]}), lambda request: texts[0]]
    async with stage(*replies) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        texts.append(str(acting.parts.agent_registry.token(agent.id)))
        shown = f"{texts[0][:8]}[redacted:token]"
        for _ in range(2):
            answer = await ask(acting, "conversation/message", conversation_id=agent.id, text=texts[0])
            assert (type(answer), answer.last_assistant_message) == (MessageAnswer, shown)
        opened = await ask(acting, "conversation/set_context", conversation_id=agent.id, base_instructions=texts[0])
        assert (type(opened), opened.context.base_instructions) == (OpenAnswer, shown)
        forked = await ask(acting, "conversation/fork", conversation_id=agent.id)
        listed = await ask(acting, "conversation/history", conversation_id=forked.conversation_id)
        assert {entry.text for entry in listed.entries} == {shown}
        task = await ask(acting, "task/get", task_id=answer.task_id)
        assert task.last_assistant_message == shown
        with pytest.raises(NotFoundError) as refused:
            await ask(acting, "conversation/history", conversation_id=texts[0])
        assert texts[0][:9] not in refused.value.message
