"""A session that died comes back in another process, and is held to every word it gave."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tertulia.protocol.events import Event
from tertulia.protocol.items import Summary, ToolCall, ToolOutput
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.resume.close_open import INTERRUPTED, UNKNOWN
from tertulia.session.session import Session
from tertulia.testing import check_invariants
from tests.durability.reference import Life


def lines_of(path: Path) -> list[str]:
    """What was written whole: the last line of one who was killed may be cut."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


class Word:
    """All that a life was told."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in lines_of(folder / "told")]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if kind in line]

    def last(self, kind: str, **where: Any) -> dict[str, Any] | None:
        fitting = [line for line in self.all(kind) if all(line.get(name) == value for name, value in where.items())]
        return fitting[-1] if fitting else None


class Afterlife:
    """Every check, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.word = Word(folder)
        self.life = Life(folder)
        self.life.go.set()
        self.session_id = self.word.all("session")[0]["session"]

    def events(self) -> list[Event]:
        with closing(SqliteReader(find_files(self.folder / "home", self.session_id).db)) as rows:
            lines = list(RowReader().lines(rows.rows()))
        assert not any(line.damaged or line.missing for line in lines)
        assert all(line.what is not None for line in lines)
        return [line.what for line in lines if isinstance(line.what, Event)]

    def effects(self) -> list[str]:
        return lines_of(self.folder / "effects")

    async def check(self) -> None:
        self.what_was_delivered_is_there()
        before = self.effects()
        async with Session.resume(self.session_id, self.life.settings()) as session:
            assert self.life.model.requests == [], "coming back asked a model"
            assert self.effects() == before, "coming back ran a tool"
            self.histories_are_whole(session)
            self.outcomes_are_honest(session, set(before))
            await self.what_was_agreed_holds(session)
            await self.answers_are_the_same(session, before)
            await self.the_rest_is_answered_once(session)
            await self.nobody_is_still_allowed_anything(session)
            await self.everybody_goes_on(session)
            self.histories_are_whole(session)
        events = self.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert {event.epoch for event in events} == {0, 1}
        if any(event.type == "error" for event in events) or self.word.all("failed"):
            everything_has_its_end(events)
        else:
            check_invariants(events)

    def what_was_delivered_is_there(self) -> None:
        stored = {event.seq: msgspec.to_builtins(event) for event in self.events()}
        assert list(stored) == list(range(1, len(stored) + 1)), "a gap among what is stored"
        for line in self.word.all("event"):
            received_text = line["event"]
            assert stored.get(received_text["seq"]) == received_text, f"delivered and not stored: {received_text}"

    def histories_are_whole(self, session: Session) -> None:
        """F10: each call has one output, and it comes after it."""
        for conversation in session.parts.conversations:
            items = conversation.history.snapshot()
            calls = [item.call_id for item in items if isinstance(item, ToolCall)]
            outputs = [item.call_id for item in items if isinstance(item, ToolOutput)]
            assert sorted(calls) == sorted(outputs)
            called: set[str] = set()
            for item in items:
                if isinstance(item, ToolCall):
                    called.add(item.call_id)
                elif isinstance(item, ToolOutput):
                    assert item.call_id in called, "an output before its call"

    def outcomes_are_honest(self, session: Session, done: set[str]) -> None:
        """F13: what is said to be done was done; what was done is never said not to have begun."""
        for conversation in session.parts.conversations:
            items = conversation.history.snapshot()
            texts = {item.call_id: item.text for item in items if isinstance(item, ToolOutput)}
            for call in items:
                if isinstance(call, ToolCall) and call.name in ("act", "pause"):
                    what, text = json.loads(call.arguments)["what"], texts[call.call_id]
                    never = text == INTERRUPTED or text.startswith("failed: ")
                    assert text in (f"did {what}", UNKNOWN) or never, text
                    assert text != f"did {what}" or what in done, f"{what} was not done and is said to be"
                    assert not (never and what in done), f"{what} was done and is said not to be"

    async def what_was_agreed_holds(self, session: Session) -> None:
        """Terms, forks, compactions and closings that were answered; nobody has more rights than before."""
        known = {conversation.id: conversation for conversation in session.conversations()}
        for opened in self.word.all("opened"):
            context = await known[opened["opened"]].context()
            newer = self.word.last("context", context=opened["opened"])
            wanted = {(newer or opened)["user_instructions"]}
            if newer is None and len(self.word.all("reply")) >= 4:
                wanted.add("be long")  # asked for, and perhaps done, when nobody had been told
            assert context.user_instructions in wanted
            assert context.policy["sandbox"] == opened["sandbox"]
        assert (await session.root.context()).policy["sandbox"] == "danger-full-access"
        assert await session.approvals.grants() == [], "what was allowed is still allowed"
        assert await session.approvals.pending() == []
        for forked in self.word.all("forked"):
            items = session.parts.conversations.find(forked["forked"]).history.snapshot()
            assert len(items) >= forked["items"]
        if self.word.all("compacted"):
            assert any(isinstance(item, Summary) for item in session.parts.conversations.root.history.snapshot())
        for event in self.word.all("event"):
            if event["event"]["type"] == "conversation_closed":
                assert event["event"]["conversation_id"] not in known

    async def answers_are_the_same(self, session: Session, before: list[str]) -> None:
        """An answer that was given is given again, and nothing runs for it."""
        for reply in self.word.all("reply"):
            there = session.conversation(reply["conversation"])
            again = await there.message(reply["reply"], message_id=reply["reply"][:60])
            assert (again.text, again.tool_calls) == (reply["text"], reply["calls"])
        assert self.effects() == before
        assert self.life.model.requests == []

    async def the_rest_is_answered_once(self, session: Session) -> None:
        """What got no answer is run, or was and is known; sent once more it is known in any case."""
        answered = {line["reply"] for line in self.word.all("reply")}
        refused = {line["failed"]: line["because"] for line in self.word.all("failed")}
        for text in ("two 2", "plan 5", "after 7", "act 9"):
            if text not in answered:
                first = await session.root.message(text, message_id=text)
                assert first.status == "completed" or (first.error and first.error.message == refused.get(text))
                effects = self.effects()
                assert (await session.root.message(text, message_id=text)).task_id == first.task_id
                assert self.effects() == effects

    async def nobody_is_still_allowed_anything(self, session: Session) -> None:
        """B8: a command that was allowed for the whole session is asked about again, and nobody is there to answer."""
        assert (await session.root.message("run 1")).status == "completed"
        output = [item for item in session.parts.conversations.root.history.snapshot() if isinstance(item, ToolOutput)]
        assert "no_approver" in output[-1].text

    async def everybody_goes_on(self, session: Session) -> None:
        for conversation in session.conversations():
            reply = await conversation.message(f"hello {conversation.id}")
            assert (reply.status, reply.text) == ("completed", f"answer to hello {conversation.id}")
        if self.word.all("steered") and not self.word.all("compacted"):
            texts = [entry.text for entry in await session.root.history()]
            compacted = any(isinstance(item, Summary) for item in session.parts.conversations.root.history.snapshot())
            assert texts.count("be quick 4") == 1 or compacted


def everything_has_its_end(events: list[Event]) -> None:
    """What a bad disk took away: a task may lack its beginning, and its end may be told late. All have one end."""
    counts: dict[tuple[Any, ...], list[int]] = {}
    for event in events:
        if event.type in ("task_started", "task_complete", "turn_aborted"):
            counts.setdefault((event.task_id,), [0, 0])[event.type != "task_started"] += 1
        elif event.type in ("tool_call_begin", "tool_call_end"):
            key = (event.conversation_id, event.data["call_id"])
            counts.setdefault(key, [0, 0])[event.type == "tool_call_end"] += 1
    fine = {True: ([1, 1], [0, 1]), False: ([1, 1],)}
    assert {key: count for key, count in counts.items() if count not in fine[len(key) == 1]} == {}


async def check(folder: Path) -> None:
    """Raises for a word that was not kept. One that died before it was told anything has promised nothing."""
    if Word(folder).all("session"):
        await Afterlife(folder).check()
