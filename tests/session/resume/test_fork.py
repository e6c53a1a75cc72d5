"""A new session out of a stored one: the same words, the same rights, and nothing that was not stored."""

from __future__ import annotations

import pytest

import tertulia
from tertulia.errors import InvalidParamsError, NotFoundError, StorageError
from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import ItemId
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.sweep.home_sweep import sweep_home
from tertulia.rollout.sweep.retention import Retention
from tertulia.session.resume import fork as fork_module
from tertulia.session.resume.fork import fork_session, read_recorded_state
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedState
from tertulia.session.resume.replay_verification import verify_requests
from tertulia.session.session import Session
from tertulia.session.settings.settings import current_environment
from tertulia.testing import FakeClock, ScriptedModel, call, say
from tests.session.stored import home, lines, session_ids, stored_bytes
from tests.tables import each_row

PLAN = call("update_plan", {"plan": [{"step": "look", "status": "in_progress"}]})
CANARY = "canary-in-a-cage"


def settings(*replies: object, **fields: object) -> tertulia.Settings:
    return tertulia.Settings(model=ScriptedModel(list(replies)), **fields)


async def talked(**fields: object) -> Session:
    """A session of two rounds."""
    async with Session.start(settings(say("", PLAN), "one", "two", **fields)) as session:
        await session.root.message(f"first {CANARY}")
        await session.root.message("second")
    return session


async def fork(session_id: str, **where: object) -> str:
    return await fork_session(current_environment(), tertulia.Settings(), SystemClock(), session_id, **where)


async def said_in(session_id: str, *replies: object) -> list[str | None]:
    async with Session.resume(session_id, settings(*replies)) as session:
        return [entry.text for entry in await session.root.history()]


async def test_a_fork_begins_with_everything_and_leaves_the_old_session_alone() -> None:
    old = await talked()
    before = lines(old.id)
    new = await fork(old.id)
    assert lines(old.id) == before
    assert session_ids() == {old.id, new}
    assert await said_in(new) == [f"first {CANARY}", "one", "second", "two"]
    past = read_recorded_state(home(), new)
    assert past.identity() != read_recorded_state(home(), old.id).identity()
    assert past.conversations[past.identity()[1]].plan is not None


@pytest.mark.parametrize(("at", "left"), [(1, 2), (2, 4), ("item", 1)])
async def test_it_ends_at_a_round_or_at_an_item(at: int | str, left: int) -> None:
    old = await talked()
    first = next(
        item
        for line in lines(old.id)
        if isinstance(line.what, ItemsRecord) and not line.what.seed
        for item in line.what.items
    )
    new = await fork(old.id, at=ItemId(first.id) if at == "item" else at)
    assert len(await said_in(new)) == left


@each_row(
    ("where", "refused"),
    [
        ({"at": 9}, NotFoundError),
        ({"at": 0}, InvalidParamsError),
        ({"at": ItemId("nothing")}, NotFoundError),
        ({"conversation_id": "nobody"}, NotFoundError),
    ],
)
async def test_a_point_that_is_not_there_leaves_nothing_behind(where: dict[str, object], refused: type) -> None:
    old = await talked()
    before = session_ids(), lines(old.id)
    with pytest.raises(refused):
        await fork(old.id, **where)
    assert (session_ids(), lines(old.id)) == before


async def test_an_id_that_is_none_and_a_session_that_is_not_there() -> None:
    """HARDENING E9."""
    with pytest.raises(InvalidParamsError):
        await fork("../../etc/passwd")
    with pytest.raises(NotFoundError):
        await fork("00000000-0000-0000-0000-000000000000")
    assert session_ids() == set()


async def test_another_conversation_becomes_the_root_with_its_own_terms() -> None:
    async with Session.start(settings("hi")) as old:
        child = await old.open(
            base_instructions="Be brief.", title="helper", sandbox="read-only", include_plan_tool=False
        )
        await child.message("hello")
    new = await fork(old.id, conversation_id=child.id)
    async with Session.resume(new, settings("again")) as session:
        (root,) = session.conversations()
        context = await root.context()
        assert (root.info.title, root.info.parent_id, root.info.depth) == ("helper", None, 0)
        assert (context.base_instructions, context.policy["sandbox"]) == ("Be brief.", "read-only")
        assert "update_plan" not in {tool.name for tool in root.tools()}
        await root.message("go on")
    assert [verdict.outcome for verdict in verify_requests(lines(new))] == ["same"]


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_not_stored_is_not_stored_in_the_fork_either() -> None:
    """S002-16, HARDENING E1: placeholders stay placeholders."""
    old = await talked(storage_policy="headers_only")
    new = await fork(old.id)
    assert CANARY.encode() not in stored_bytes(new)
    past = read_recorded_state(home(), new)
    root = past.conversations[past.identity()[1]]
    assert sum(len(piece.missing) for piece in root.pieces) == len(root.items) > 0
    assert all("[not stored" in item.text for item in root.items if hasattr(item, "text"))


async def test_nothing_lives_longer_for_having_been_copied() -> None:
    """S002-18, X-31: the age of a record is that of what was said, not of the copy."""
    old = await talked(storage_policy={"ttl": 100.0})
    said_at = max(line.ts for line in lines(old.id) if isinstance(line.what, ItemsRecord))
    late = FakeClock(said_at + 90)
    new = await fork_session(current_environment(), tertulia.Settings(), late, old.id)
    assert CANARY.encode() in stored_bytes(new)
    late.advance(20)
    assert sweep_home(home(), Retention(), late).bodies > 0
    assert CANARY.encode() not in stored_bytes(new)


async def test_a_conversation_whose_records_are_lost_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it would not be what was said."""
    old = await talked()
    whole = read_recorded_state(home(), old.id)
    root: RecordedConversation = whole.conversations[whole.identity()[1]]
    root.pieces = [piece for piece in root.pieces if not any(type(item).__name__ == "ToolCall" for item in piece.items)]
    monkeypatch.setattr(fork_module, "read_recorded_state", lambda home, session_id, clock: whole)
    with pytest.raises(StorageError, match="resume the session"):
        await fork(old.id)
    assert session_ids() == {old.id}


async def test_a_conversation_whose_records_have_expired_is_forked_with_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R3: each call has one output in the fork too, where `ttl_action = "delete"` took its call away."""
    old = await talked(storage_policy={"ttl": 100.0})
    whole = read_recorded_state(home(), old.id)
    root: RecordedConversation = whole.conversations[whole.identity()[1]]
    root.pieces = [piece for piece in root.pieces if not any(type(item).__name__ == "ToolCall" for item in piece.items)]
    monkeypatch.setattr(fork_module, "read_recorded_state", lambda home, session_id, clock: whole)
    new = await fork(old.id)
    copied = RecordedState().read(lines(new))
    kinds = [type(item).__name__ for item in copied.conversations[copied.identity()[1]].items]
    assert "AssistantMessage" in kinds
    assert "ToolOutput" not in kinds
