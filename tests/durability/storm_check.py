"""What must hold of a session after a kill in a storm, under every storage policy; checked on a copy of its home."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import tertulia
from tertulia.events.clock import SystemClock
from tertulia.protocol.events import Event
from tertulia.protocol.items import ToolCall, ToolOutput
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.resume.fork import fork_session
from tertulia.session.resume.replay_verification import verify_requests
from tertulia.session.settings.settings import current_environment
from tests.durability.storm import CANARY, POLICIES, StormLife, lines_of

TEXTLESS = ("headers_only", "none")


class StormCheck:
    """One after the other, each raises what is wrong."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder = folder
        self.policy = policy
        self.told = lines_of(folder / "told")
        self.life = StormLife(folder / "check", policy)
        self.session_id: str = next(line["session"] for line in self.told if "session" in line)

    def effects(self) -> list[Any]:
        return lines_of(self.folder / "check" / "effects")

    def lines(self, session_id: str | None = None) -> list[RecordLine]:
        home = current_environment().home
        with closing(SqliteReader(find_files(home, session_id or self.session_id).db)) as rows:
            assert rows.proof().faults == (), "the head of the record knows of others"
            return list(RowReader().lines(rows.rows()))

    async def check(self) -> None:
        self.nothing_to_find("killed")
        (self.folder / "open_tasks").write_text(str(len(open_tasks(events_of(self.lines())))))
        self.readable(self.lines())
        self.what_was_told_is_there(self.lines())
        if self.policy != "none":
            await self.forked()
        async with tertulia.Session.resume(self.session_id, self.life.settings()) as session:
            assert self.life.model.requests == [], "coming back asked a model"
            histories_are_whole(session)
            await self.messages_are_answered_once(session)
            for conversation in session.conversations():
                reply = await conversation.message(f"two {CANARY} last")
                assert reply.status == "completed", reply
            histories_are_whole(session)
        async with tertulia.Session.resume(self.session_id, self.life.settings()) as session:
            # What the last life wrote, when it came back and forked and forgot, is counted the same by the next.
            histories_are_whole(session)
        self.the_record_is_whole(self.lines())
        self.nothing_to_find("resumed")

    def nothing_to_find(self, when: str) -> None:
        """No text of a conversation whose policy stores none, in any file of the home."""
        if self.policy in TEXTLESS:
            home = str(current_environment().home)
            found = subprocess.run(
                ["grep", "-r", "-l", "-a", CANARY, home], capture_output=True, text=True, check=False
            )
            assert found.stdout == "", f"{when}: {found.stdout}"

    def readable(self, lines: list[RecordLine]) -> None:
        # What has expired takes along what pointed to it.
        swept = self.policy == "ttl"
        assert swept or [line.damaged for line in lines if line.damaged] == []
        assert swept or all(line.what is not None for line in lines)
        assert [verdict for verdict in verify_requests(lines) if verdict.outcome == "different"] == []

    def what_was_told_is_there(self, lines: list[RecordLine]) -> None:
        """Nothing that was acknowledged is lost. Under `none` and after a sweep only the skeleton is there."""
        stored = {(event.epoch, event.seq): event.type for event in events_of(lines)}
        stored_types = ("task_complete", "turn_aborted") if self.policy in ("none", "ttl") else None
        for line in self.told:
            if "seq" in line and (stored_types is None or line["type"] in stored_types):
                assert stored.get((line["epoch"], line["seq"])) == line["type"], f"delivered and not stored: {line}"

    async def forked(self) -> None:
        """A fork of what the kill left, without resuming it first."""
        environment, settings = current_environment(), StormLife(self.folder / "check", self.policy).settings()
        forked = await fork_session(environment, settings, SystemClock(), self.session_id)
        async with tertulia.Session.resume(forked, settings) as session:
            histories_are_whole(session)
            assert (await session.root.message(f"two {CANARY} forked")).status == "completed"
            histories_are_whole(session)
        self.the_record_is_whole(self.lines(forked))

    async def messages_are_answered_once(self, session: tertulia.Session) -> None:
        replied = {(line["conversation"], line["replied"]): line for line in self.told if "replied" in line}
        open_now = {conversation.id: conversation for conversation in session.conversations()}
        before = self.effects()
        for (conversation, key), was in replied.items():
            if conversation in open_now:
                again = await open_now[conversation].message("anything", message_id=key)
                assert self.life.model.requests == [], f"{key} ran again"
                assert (again.status, again.task_id) == (was["status"], was["task"])
                gone = again.error is not None and again.error.code == "not_stored"
                assert again.text == was["text"] or (gone and again.text is None), (again, was)
                assert gone or self.policy not in TEXTLESS or was["text"] is None
        assert self.effects() == before
        for line in self.told:
            place = (line.get("conversation"), line.get("key"))
            if "sent" in line and place not in replied and line["conversation"] in open_now:
                there = open_now[line["conversation"]]
                first = await there.message(line["sent"], message_id=line["key"])
                effects = self.effects()
                assert (await there.message(line["sent"], message_id=line["key"])).task_id == first.task_id
                assert self.effects() == effects

    def the_record_is_whole(self, lines: list[RecordLine]) -> None:
        events = events_of(lines)
        if self.policy not in ("none", "ttl"):
            numbers = [event.seq for event in events]
            assert numbers == list(range(1, len(numbers) + 1)), f"gaps: {numbers}"
        ended = Counter(event.task_id for event in events if event.type in ("task_complete", "turn_aborted"))
        started = {event.task_id for event in events if event.type == "task_started"}
        assert [task for task, times in ended.items() if times != 1] == [], "a task ended twice"
        assert started <= ended.keys(), f"tasks without an end: {started - ended.keys()}"
        if self.policy not in ("none", "ttl"):
            calls_have_one_end(events)
            calls_have_one_output(lines)


def events_of(lines: list[RecordLine]) -> list[Event]:
    return [line.what for line in lines if isinstance(line.what, Event)]


def open_tasks(events: list[Event]) -> set[Any]:
    """Those that had begun and not ended when the process was killed."""
    ended = {event.task_id for event in events if event.type in ("task_complete", "turn_aborted")}
    return {event.task_id for event in events if event.type == "task_started"} - ended


def calls_have_one_end(events: list[Event]) -> None:
    counts: dict[tuple[Any, str], list[int]] = {}
    for event in events:
        if event.type in ("tool_call_begin", "tool_call_end"):
            key = (event.conversation_id, event.data["call_id"])
            counts.setdefault(key, [0, 0])[event.type == "tool_call_end"] += 1
    wrong = {key: count for key, count in counts.items() if count != [1, 1]}
    assert wrong == {}, f"calls that did not begin and end once: {wrong}"


def calls_have_one_output(lines: list[RecordLine]) -> None:
    calls: Counter[tuple[str, str]] = Counter()
    outputs: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if isinstance(line.what, ItemsRecord):
            for item in line.what.items:
                if isinstance(item, ToolCall):
                    calls[line.what.conversation_id, item.call_id] += 1
                elif isinstance(item, ToolOutput):
                    outputs[line.what.conversation_id, item.call_id] += 1
    # A fork begins with calls of another conversation's record; their outputs stand there too, or were closed here.
    wrong = {key: outputs[key] for key in calls if outputs[key] != 1}
    assert wrong == {}, f"calls without exactly one output: {wrong}"


def histories_are_whole(session: tertulia.Session) -> None:
    """Each call has one output, and it comes after it."""
    for conversation in session.parts.conversations:
        items = conversation.history.snapshot()
        calls = Counter(item.call_id for item in items if isinstance(item, ToolCall))
        outputs = Counter(item.call_id for item in items if isinstance(item, ToolOutput))
        assert calls == outputs, f"{conversation.id}: {calls} and {outputs}"
        assert all(times == 1 for times in calls.values())
        called: set[str] = set()
        for item in items:
            if isinstance(item, ToolCall):
                called.add(item.call_id)
            elif isinstance(item, ToolOutput):
                assert item.call_id in called, "an output before its call"


async def check(folder: Path, policy: str) -> None:
    """Of a copy, so that the session itself goes on as its kill has left it."""
    assert policy in POLICIES
    if not any("session" in line for line in lines_of(folder / "told")):
        return
    copy = folder / "check"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "home", copy / "home")
    os.environ["TERTULIA_HOME"] = str(copy / "home")
    await StormCheck(folder, policy).check()
    shutil.rmtree(copy)
