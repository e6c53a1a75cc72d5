"""R1: a store that is deleted, moved, replaced or cut short under a running session is noticed at the next answer."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import tertulia
from tertulia.errors import StorageError
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.sqlite.session_index import NAME, list_sessions
from tertulia.testing import ScriptedModel, ScriptedRequest, call
from tests.durability.lost_stores import HARMS

POLICIES = (tertulia.Full(), tertulia.HeadersOnly(), tertulia.NoStorage(), tertulia.Ttl(3600))
DURABILITIES: tuple[Literal["normal", "full"], ...] = ("normal", "full")
POINTS = ("idle", "model asked", "tool running", "before close")
Case = tuple[StoragePolicy, Literal["normal", "full"], str]
EVERY = list(itertools.product(POLICIES, DURABILITIES, POINTS))
SOME = [(POLICIES[at % 4], DURABILITIES[at // 4 % 2], POINTS[(at + at // 4) % 4]) for at in range(8)]


class Victim:
    """A session to which something happens at one point of a turn."""

    def __init__(self, home: Path, harm: str, point: str) -> None:
        self.home = home
        self._harm = HARMS[harm]
        self._point = point
        self.files: SessionFiles | None = None

    def at(self, point: str) -> None:
        if point == self._point and self.files is not None:
            self._harm(self.files)

    def settings(self, policy: StoragePolicy, durability: Literal["normal", "full"]) -> tertulia.Settings:
        @tertulia.tool
        def act() -> str:
            """Do something."""
            self.at("tool running")
            return "done"

        def respond(request: ScriptedRequest) -> Any:
            if request.last_input == "act":
                self.at("model asked")
                return call("act", {})
            return "yes"

        model = ScriptedModel([respond], repeat=True)
        return tertulia.Settings(model=model, tools=[act], storage_policy=policy, durability=durability)


async def live(home: Path, harm: str, case: Case, caplog: pytest.LogCaptureFixture) -> None:
    policy, durability, point = case
    victim = Victim(home, harm, point)
    async with tertulia.Session.start(victim.settings(policy, durability)) as session:
        assert (await session.root.message("hello", message_id="hello")).status == "completed"
        victim.files = session_files(home, session.id)
        victim.at("idle")
        reply = await session.root.message("act")
        if harm == "db overwritten" and reply.status == "completed" and point != "before close":
            # Everything still stood in the journal: nothing is lost, and that is what has to be shown.
            await all_is_there(session, victim, policy, durability)
            return
        if point == "before close":
            assert reply.status == "completed"
            victim.at(point)
        else:
            assert reply.error is not None, f"{harm}, {case}: {reply}"
            assert (reply.status, reply.error.code) == ("failed", "storage_error")
            assert str(home) in reply.error.message
            assert "; put it back" in reply.error.message
            again = await session.root.message("again")
            assert again.error is not None
            assert (again.status, again.error.code) == ("failed", "storage_error")
        caplog.clear()
        answer = await session.close()
    if harm == "db overwritten" and not answer.forced:
        await all_is_there(session, victim, policy, durability)
        return
    assert answer.forced, f"{harm}, {case}: closed as if nothing had happened"
    assert "was not closed properly" in caplog.text


async def all_is_there(
    session: tertulia.Session, victim: Victim, policy: StoragePolicy, durability: Literal["normal", "full"]
) -> None:
    assert not (await session.close()).forced
    async with tertulia.Session.resume(session.id, victim.settings(policy, durability)) as again:
        replies = [await again.root.message("hello", message_id="hello"), await again.root.message("more")]
        assert [reply.status for reply in replies] == ["completed", "completed"]
        if policy == tertulia.Full():
            assert [entry.text for entry in await again.root.history()] == ["hello", "yes", "act", "yes", "more", "yes"]


def placed(room: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> Path:
    home = room / f"life-{number}" / "home"
    home.parent.mkdir()
    monkeypatch.setenv("TERTULIA_HOME", str(home))
    return home


@pytest.mark.parametrize("harm", HARMS)
async def test_a_lost_store_fails_the_task_and_is_never_said_to_be_closed(
    room: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    """R1: every storage policy, either durability, every point of a turn; not each with each."""
    caplog.set_level(logging.ERROR)
    at = list(HARMS).index(harm)
    for number, case in enumerate(SOME[at % 2 :: 2]):
        await live(placed(room, monkeypatch, number), harm, case, caplog)


@pytest.mark.torture
@pytest.mark.timeout(300)
@pytest.mark.parametrize("harm", HARMS)
async def test_a_lost_store_fails_the_task_at_every_point_under_every_policy(
    room: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    """R1: each with each."""
    caplog.set_level(logging.ERROR)
    for number, case in enumerate(EVERY):
        await live(placed(room, monkeypatch, number), harm, case, caplog)


async def test_what_was_moved_away_and_put_back_can_be_resumed(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: all that was acknowledged is there, and what was refused is not."""
    home = placed(room, monkeypatch, 0)
    settings = tertulia.Settings(model=ScriptedModel(["one", "two", "three"]))
    async with tertulia.Session.start(settings) as session:
        await session.root.message("first", message_id="first")
        home.rename(home.with_name("away"))
        assert (await session.root.message("second")).status == "failed"
        assert not home.exists(), "what is gone must not be made anew"
    home.with_name("away").rename(home)
    async with tertulia.Session.resume(session.id, settings) as again:
        assert [entry.text for entry in await again.root.history()] == ["first", "one"]
        assert (await again.root.message("first", message_id="first")).text == "one"
        assert (await again.root.message("third")).status == "completed"


CHANGES: dict[str, Callable[[tertulia.Conversation], Awaitable[object]]] = {
    "fork": lambda there: there.fork(),
    "set_context": lambda there: there.set_context(base_instructions="Be brief."),
    "stricter": lambda there: there.set_context(storage_policy=tertulia.HeadersOnly()),
    "close": lambda there: there.close(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_else_is_answered_as_if_it_had_been_written_down(
    room: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """R1: not a message alone; whatever is acknowledged was written."""
    for number, harm in enumerate(("db deleted", "journal overwritten", "folder moved")):
        home = placed(room, monkeypatch, number)
        async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["yes"]))) as session:
            made = await session.open(title="made")
            HARMS[harm](session_files(home, session.id))
            with pytest.raises(StorageError, match="while the session was running"):
                await CHANGES[change](made)
            assert (await session.close()).forced


async def test_a_compaction_that_was_not_written_down_is_none(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: the store goes while the model writes the notes."""
    home = placed(room, monkeypatch, 0)

    def respond(request: ScriptedRequest) -> str:
        if len(model.requests) > 3:
            shutil.rmtree(home / "sessions")
        return "yes"

    model = ScriptedModel([respond], repeat=True)
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        for number in range(3):
            await session.root.message(f"number {number}")
        answer = await session.root.compact()
    assert not answer.compacted
    assert "was deleted or moved away" in (answer.reason or "")


async def test_the_index_may_be_deleted_replaced_or_cut_and_nothing_is_lost(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: it is a cache of numbers, and made again."""
    home = placed(room, monkeypatch, 0)
    index = home / "sessions" / NAME
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["yes"], repeat=True))) as session:
        for harm in (Path.unlink, lambda path: path.write_bytes(b"junk" * 999), lambda path: path.write_bytes(b"")):
            assert (await session.root.message("hi")).status == "completed"
            assert [entry.id for entry in list_sessions(home)] == [session.id]
            harm(index)
        assert [entry.id for entry in list_sessions(home)] == [session.id]
        shutil.copyfile(index, index.with_suffix(".copy"))
        index.with_suffix(".copy").replace(index)
        assert (await session.root.message("hi")).status == "completed"
        assert not (await session.close()).forced
    assert [entry.trouble for entry in list_sessions(home)] == [None]
