"""How long an agent's token is valid: exactly as long as its conversation, whichever way that ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.context.tokens import SessionTokenStore
from tertulia.errors import InvalidParamsError, StorageError, TertuliaError
from tertulia.testing import FakeClock, call
from tests.deadlines import HANG_S
from tests.mcp.fakes import hostile
from tests.session.agents_stage import EMPLOYEE, Porter
from tests.session.lives import Lives, until
from tests.session.staging import Disk, Stage, stage
from tests.tables import each_row


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every token that is ever made."""
    tokens: list[str] = []
    generate = SessionTokenStore.generate

    def noting(store: SessionTokenStore, *args: Any) -> str:
        tokens.append(generate(store, *args))
        return tokens[-1]

    monkeypatch.setattr(SessionTokenStore, "generate", noting)
    return tokens


def nothing_is_left(acting: Stage, *tokens: str | None) -> None:
    agent_registry = acting.parts.agent_registry
    assert agent_registry.tokens == 0
    assert len(acting.session.conversations()) == 1
    for token in tokens:
        assert token is not None
        with pytest.raises(InvalidParamsError, match="the token is not valid"):
            agent_registry.internal.validate_token(token)
    assert agent_registry.canvases.list() == {}


def slow_server() -> tertulia.McpServerStdio:
    command, *args = hostile("slow-start")
    return tertulia.McpServerStdio("slow", command, args)


# ── endings ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_the_conversation_ends_it() -> None:
    """S001-44: stop."""
    async with stage() as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        token = acting.parts.agent_registry.token(agent.id)
        assert acting.parts.agent_registry.internal.validate_token(token).agent_name == "ada"
        await agent.close()
        nothing_is_left(acting, token)


async def test_a_model_that_destroys_it_ends_it() -> None:
    """S001-44: destroy."""
    agents: list[str] = []
    async with stage(lambda request: call("conv_destroy", {"conversation_id": agents[0]}), "gone") as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        agents.append(agent.id)
        token = acting.parts.agent_registry.token(agent.id)
        assert (await acting.root.message("go")).text == "gone"
        assert acting.outputs(acting.root)[0].success
        await agent.close()
        nothing_is_left(acting, token)


async def test_closing_the_session_ends_all_of_them(made: list[str]) -> None:
    """S001-44."""
    async with stage() as acting:
        for name in ("ada", "eva"):
            await acting.session.open(agent={"name": name, "archetype": "employee"})
        agent_registry = acting.parts.agent_registry
        assert (agent_registry.tokens, len(made)) == (2, 2)
        await acting.session.close()
        assert agent_registry.tokens == 0
        for token in made:
            with pytest.raises(InvalidParamsError):
                agent_registry.internal.validate_token(token)
        assert not agent_registry.callback_socket.path.exists()


async def test_a_new_process_knows_no_token_of_an_old_one(lives: Lives, made: list[str]) -> None:
    """S001-44: crash. What comes back gets a new one."""
    async with lives.start("hi") as session:
        agent = await session.open(agent=EMPLOYEE)
        await agent.message("go")
        lives.die()
        async with lives.resumed(session.id) as second:
            old, new = made
            assert old != new
            agent_registry = second.parts.agent_registry
            assert agent_registry.token(agent.id) == new
            with pytest.raises(InvalidParamsError):
                agent_registry.internal.validate_token(old)


async def test_one_that_is_not_used_for_a_day_expires_and_a_task_renews_it() -> None:
    """S001-46."""
    clock = FakeClock()
    async with stage("hi", "again", clock=clock) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        token = acting.parts.agent_registry.token(agent.id)
        clock.advance(23 * 3600)
        await agent.message("go")
        clock.advance(23 * 3600)
        assert acting.parts.agent_registry.internal.validate_token(token).agent_name == "ada"
        clock.advance(2 * 3600)
        with pytest.raises(InvalidParamsError, match="expired"):
            acting.parts.agent_registry.internal.validate_token(token)
        assert acting.parts.agent_registry.tokens == 0


async def test_a_task_of_an_agent_whose_token_has_expired_has_its_tools_all_the_same() -> None:
    """The token is for those outside; the host knows its own."""
    clock = FakeClock()
    async with stage(call("canvas_update", {"html": "x"}), "done", clock=clock) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        clock.advance(48 * 3600)
        assert (await agent.message("go")).text == "done"
        assert acting.outputs(agent)[0].success


# ── it never came to be ──────────────────────────────────────────────────────────────────────────────────────


async def test_an_allowlist_that_names_nothing_leaves_no_token(made: list[str]) -> None:
    """S001-44: failed start; what its own servers offer is known only after it was prepared."""
    async with stage(providers=[Porter(servers=[slow_server()])]) as acting:
        with pytest.raises(InvalidParamsError, match="nobody__x"):
            await acting.session.open(agent=EMPLOYEE, mcp_tool_allowlist=["nobody__x"])
        nothing_is_left(acting, *made)
        assert len(made) == 1
        await until(lambda: not acting.parts.servers._private)


async def test_a_conversation_that_cannot_be_recorded_leaves_no_token(made: list[str]) -> None:
    """S001-44, F: the journal refuses its birth."""
    journal = Disk()
    async with stage(journal=journal, invariants=False) as acting:
        journal.holding = True
        opening = acting.begin(acting.session.open(agent=EMPLOYEE))
        await until(lambda: any(event.type == "conversation_opened" for event, _ in journal.open))
        assert acting.parts.agent_registry.tokens == 1
        journal.fail(StorageError("the disk is full"))
        with pytest.raises(StorageError):
            await opening
        nothing_is_left(acting, *made)
        journal.holding = False


@pytest.mark.parametrize("where", ["provider", "server"])
async def test_an_open_that_is_cancelled_leaves_no_token(made: list[str], where: str) -> None:
    """S001-44: while a provider is asked, and while a server starts."""
    arrived, never = asyncio.Event(), asyncio.Event()

    def hang() -> Any:
        arrived.set()
        return never.wait() if where == "provider" else None

    porter = Porter(before=hang, servers=[slow_server()])
    async with stage(providers=[porter]) as acting:
        opening = acting.begin(acting.session.open(agent=EMPLOYEE))
        await asyncio.wait_for(arrived.wait(), HANG_S)
        if where == "server":
            await until(lambda: bool(acting.parts.servers._private))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        nothing_is_left(acting, *made)
        assert len(made) == (where == "server")
        await until(lambda: not acting.parts.servers._private)


async def test_a_session_that_closes_while_an_agent_is_prepared_leaves_no_token(made: list[str]) -> None:
    """S001-44."""
    arrived, go = asyncio.Event(), asyncio.Event()

    def wait() -> Any:
        arrived.set()
        return go.wait()

    async with stage(providers=[Porter(before=wait)]) as acting:
        opening = acting.begin(acting.session.open(agent=EMPLOYEE))
        await asyncio.wait_for(arrived.wait(), HANG_S)
        agent_registry = acting.parts.agent_registry
        await acting.session.close()
        go.set()
        with pytest.raises(TertuliaError, match="closed"):
            await opening
        assert agent_registry.tokens == 0


async def test_too_many_conversations_leave_no_token(made: list[str]) -> None:
    """S001-44: refused before anybody is asked, and again if the last place went meanwhile."""
    arrived, go = asyncio.Event(), asyncio.Event()

    def wait() -> Any:
        arrived.set()
        return go.wait()

    async with stage(providers=[Porter(before=wait)], limits={"max_conversations": 1}) as acting:
        opening = acting.begin(acting.session.open(agent=EMPLOYEE))
        await asyncio.wait_for(arrived.wait(), HANG_S)
        other = await acting.session.open()
        go.set()
        with pytest.raises(TertuliaError, match="max_conversations"):
            await opening
        assert len(made) == 1
        await other.close()
        nothing_is_left(acting, *made)


# ── what is no token ─────────────────────────────────────────────────────────────────────────────────────────


@each_row("spoilt", ["short", "long", "upper", "empty", "another", "none", "newline"])
async def test_what_is_not_the_token_is_refused_and_changes_nothing(spoilt: str) -> None:
    """HARDENING D6, S001-42, S001-47; issue 9, bad input; with an audit record each."""
    async with stage() as acting, stage() as another:
        agent_registry = acting.parts.agent_registry
        agent = await acting.session.open(agent=EMPLOYEE)
        stranger = await another.session.open(agent=EMPLOYEE)
        token = str(agent_registry.token(agent.id))
        field: Any = {
            "short": token[:63], "long": token + "0", "upper": token.upper(), "empty": "", "none": None,
            "another": another.parts.agent_registry.token(stranger.id), "newline": token + "\n",
        }[spoilt]  # fmt: skip
        if field == token:
            pytest.skip("a token of digits only")
        with pytest.raises(InvalidParamsError, match="the token is not valid"):
            agent_registry.internal.validate_token(field)
        with pytest.raises(InvalidParamsError, match="the token is not valid"):
            await agent_registry.internal.call(field, "canvas_update", {"html": "x"}, source="rpc")
        (record,) = agent_registry.audit
        assert (record.ok, record.result, record.agent_name) == (False, "invalid_params", None)
        assert len(record.token_prefix) <= 8
        assert agent_registry.canvases.list() == {}
        assert agent_registry.internal.validate_token(token).session_id == agent.id
