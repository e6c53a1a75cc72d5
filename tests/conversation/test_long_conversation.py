"""Issue 24, 6: a conversation near the end of the model's window is made smaller by itself, and loses no constraint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

import tertulia
from tertulia.history.shortening import RECENT_OUTPUTS
from tertulia.prompt.request import builtin_text
from tertulia.protocol.items import Summary, ToolOutput, UserMessage
from tertulia.session.resume.replay_verification import verify_requests
from tertulia.session.session import Session
from tertulia.testing import RecordedEvents, ScriptedModel, call, fail, say
from tests.session.stored import lines

WINDOW = 20_000
CONSTRAINT = "Never touch the folder vendor/."
MIDDLE = "The names in api.py must stay as they are."
"""A constraint that is set on the way, among longer texts than any summary has room for."""
PLAIN = {
    3: "The report goes to Anna in the purple folder.",
    7: "Tabs and four columns in every table, please.",
    9: "I like the names of rivers for the new classes.",
    14: "Version 3.9 is what our customers have.",
    18: "Errors go to stderr in the new module.",
}
"""Demands without any word that marks them as such, by the task whose message they are said in the middle of."""
MIDDLE_TASK = 6
TURNS_OF_A_TASK = 20
TURNS_OF_A_PLAN = 100


def look(path: str) -> str:
    """Read a file."""
    return f"begin of {path}\n" + "some text of the file\n" * 100 + f"end of {path}"


class Worker:
    """A model that works in turns with one call each, and checks in every request what it is told."""

    def __init__(self, notes: Any = None, *, lists_demands: bool = False) -> None:
        self._lists_demands = lists_demands
        self.turn = self.largest = 0
        self.told_middle = False
        self.told_plain: set[str] = set()
        self.notes_written: list[str] = []
        self.faults: list[str] = []
        self._notes = notes

    def __call__(self, request: Any) -> Any:
        texts = "\n".join(_texts(item) for item in request.items)
        self.largest = max(self.largest, (len(texts) + len(request.instructions)) // 4)
        self.told_middle = self.told_middle or MIDDLE in texts
        if request.instructions == builtin_text("compact"):
            self._expect("the constraint is not in what is summarised", CONSTRAINT in texts)
            demands = [f"- {demand}" for demand in PLAIN.values() if self._lists_demands and demand in texts]
            listed = "\n".join(["", "", "Demands:", *demands]) if demands else ""
            self.notes_written.append(f"notes number {len(self.notes_written)}{listed}")
            return self._notes or self.notes_written[-1]
        self._check(request, texts)
        for demand in PLAIN.values():
            if demand in texts:
                self.told_plain.add(demand)
            self._expect(f"the plain demand is gone: {demand}", demand in texts or demand not in self.told_plain)
        self.turn += 1
        if self.turn % TURNS_OF_A_TASK == 0:
            return say(f"done with {self.turn}")
        if self.turn % TURNS_OF_A_PLAN == 5:
            return say("", call("update_plan", {"plan": [{"step": f"step of {self.turn}", "status": "in_progress"}]}))
        return say("", call("look", {"path": f"src/file_{self.turn}.py"}))

    def _check(self, request: Any, texts: str) -> None:
        self._expect("the constraint is gone", CONSTRAINT in texts)
        self._expect("the constraint of the middle is gone", MIDDLE in texts or not self.told_middle)
        if self.turn > 5:
            planned = self.turn - (self.turn - 5) % TURNS_OF_A_PLAN
            self._expect("the plan is gone", f"step of {planned}" in texts or planned == self.turn)
        newest = request.items[-1]
        if isinstance(newest, ToolOutput) and newest.text != "Plan updated":
            self._expect("the newest output is not whole", newest.text == look(f"src/file_{self.turn}.py"))
            turns = [
                turn
                for turn in range(self.turn - 2, self.turn + 1)
                if turn > 0 and turn % 20 and turn % TURNS_OF_A_PLAN != 5
            ]
            earlier = [f"src/file_{turn}.py" for turn in turns]
            self._expect("a file in use is not named", all(path in texts for path in earlier))
        if self.notes_written and not self._notes:
            summaries = [item for item in request.items if isinstance(item, Summary)]
            self._expect("the notes are not there", any(self.notes_written[-1] in item.text for item in summaries))

    def _expect(self, what: str, holds: bool) -> None:
        if not holds:
            self.faults.append(f"turn {self.turn}: {what}")


def _texts(item: Any) -> str:
    return msgspec.json.encode(item).decode() if not isinstance(item, UserMessage | Summary) else item.text


def settings(worker: Any, window: int = WINDOW, **fields: Any) -> tertulia.Settings:
    model = ScriptedModel([worker], repeat=True, context_window=window)
    return tertulia.Settings(model=model, tools=[look], **fields)


async def work(session: Session, tasks: int, other: Callable[[int], str] = str) -> None:
    """`other` is a text that each message has beside what it is about."""
    await session.root.message(f"Begin. {CONSTRAINT}")
    for number in range(1, tasks):
        padding = f"This is told about part {number}. " * 40
        middle = f"{MIDDLE} " if number == MIDDLE_TASK else f"{PLAIN.get(number, '')} "
        await session.root.message(f"Go on with {number}. {padding}{middle}{other(number)} {padding}")


def log(number: int) -> str:
    """Lines that a user pastes, alike but for their numbers."""
    lines = (
        f"At {number}:{line:02} the worker {line * number} took job {line * 7} off the queue." for line in range(12)
    )
    return " ".join(lines) + " "


def letters(number: int) -> str:
    """Sentences of which none is like another, and all are shorter than a demand."""
    words = ("".join(chr(97 + (number * 7 + line * 5 + at * at) % 26) for at in range(line + 4)) for line in range(30))
    return " ".join(f"{word.capitalize()} is {word[::-1]}." for word in words) + " "


async def test_no_demand_is_lost_whatever_the_notes_say_where_messages_are_long() -> None:
    """Every message has a log and padding around what it asks for, and the notes of the model say nothing of it."""
    worker = Worker()
    async with Session.start(settings(worker, window=40_000)) as session:
        await work(session, 500 // TURNS_OF_A_TASK, log)
    assert worker.faults == []
    assert worker.told_plain == set(PLAIN.values())
    assert (worker.turn, len(worker.notes_written) >= 5) == (500, True)


async def test_what_the_notes_list_once_is_carried_also_where_no_guess_finds_it() -> None:
    """The compact text asks for the list: `Demands:`; what stands in it does not depend on later notes."""
    assert "a line `Demands:`" in builtin_text("compact")
    worker = Worker(lists_demands=True)
    async with Session.start(settings(worker)) as session:
        await work(session, 500 // TURNS_OF_A_TASK, letters)
    assert worker.faults == []
    assert worker.told_plain == set(PLAIN.values())


async def test_500_turns_with_a_model_that_checks_what_it_is_told() -> None:
    worker = Worker()
    async with Session.start(settings(worker)) as session, RecordedEvents(session) as events:
        await work(session, 500 // TURNS_OF_A_TASK)
        seen = [event.data for event in events.drain()]
    assert worker.faults == []
    assert worker.told_middle
    assert worker.told_plain == set(PLAIN.values())
    assert worker.turn == 500
    assert worker.largest <= WINDOW
    compacted = [data for data in seen if isinstance(data, tertulia.HistoryCompacted)]
    assert {data.trigger for data in compacted} == {"window"}
    assert sum(data.shortened_outputs > 0 for data in compacted) >= 5
    assert len(worker.notes_written) >= 5
    for at, data in enumerate(seen):
        if isinstance(data, tertulia.HistoryCompacted) and data.shortened_outputs:
            before = seen[at - 1]
            assert isinstance(before, tertulia.BackgroundEvent), "it is shown before it happens"
            assert "% of the model's window of 20,000 tokens" in before.message


async def test_every_prompt_comes_out_of_the_record_and_a_resume_goes_on_where_it_was() -> None:
    """S002-15: shortened outputs and notes are rebuilt byte for byte."""
    worker = Worker()
    async with Session.start(settings(worker)) as session:
        await work(session, 4)
        history = session.parts.conversations.find(session.root.id).history.totals
    assert worker.notes_written
    async with Session.resume(session.id, settings(worker)) as again:
        assert again.parts.conversations.find(again.root.id).history.totals == history
        await again.root.message("Go on after the resume.")
    assert worker.faults == []
    outcomes = [verdict.outcome for verdict in verify_requests(lines(session.id))]
    assert set(outcomes) == {"same"}
    assert len(outcomes) == 100 + len(worker.notes_written)


async def test_where_the_model_writes_no_notes_a_local_summary_keeps_the_facts() -> None:
    worker = Worker(notes=fail("no notes today"))
    async with Session.start(settings(worker)) as session, RecordedEvents(session) as events:
        await work(session, 6)
        seen = events.drain()
    assert worker.faults == []
    assert worker.notes_written
    warnings = [event.data.message for event in seen if isinstance(event.data, tertulia.WarningEvent)]
    assert warnings
    assert all("a local summary replaces them" in message for message in warnings)


async def test_outputs_alone_are_shortened_where_that_is_enough() -> None:
    def reply(request: Any) -> Any:
        outputs = sum(isinstance(item, ToolOutput) for item in request.items)
        return say("", call("read_log", {})) if outputs < 30 else say("done")

    def read_log() -> str:
        """Read a long log."""
        return "a line of the log\n" * 800

    model = ScriptedModel([reply], repeat=True, context_window=100_000)
    async with Session.start(tertulia.Settings(model=model, tools=[read_log])) as session:
        async with RecordedEvents(session) as events:
            await session.root.message("Read it thirty times.")
            (done,) = [event.data for event in events.drain() if isinstance(event.data, tertulia.HistoryCompacted)]
        outputs = [item.text for item in model.last_request.items if isinstance(item, ToolOutput)]
    assert (done.compacted, done.removed_items, done.trigger) == (True, 0, "window")
    assert sum("removed to make room" in text for text in outputs) == done.shortened_outputs > 0
    assert all(text == read_log() for text in outputs[-RECENT_OUTPUTS:])


async def test_the_share_can_be_set_and_switched_off() -> None:
    off, early = Worker(), Worker()
    async with Session.start(settings(off, limits={"compact_at": None})) as session:
        await work(session, 2)
    assert (off.largest > WINDOW * 0.85, off.notes_written) == (True, [])
    async with Session.start(settings(early, limits={"compact_at": 0.4})) as session, RecordedEvents(session) as events:
        await work(session, 1)
        notices = [event.data.message for event in events.drain() if isinstance(event.data, tertulia.BackgroundEvent)]
    assert re.match(r"the conversation fills 4\d % of the model's window of 20,000 tokens", notices[0])


async def test_instructions_and_tools_count_like_the_history() -> None:
    """With instructions of half the window no request may have more history than the other half."""
    instructions = "Work on. " * (WINDOW * 4 // 2 // 9)
    worker = Worker()
    async with Session.start(settings(worker)) as session, RecordedEvents(session) as events:
        await session.root.set_context(base_instructions=instructions)
        await work(session, 3)
        notices = [event.data.message for event in events.drain() if isinstance(event.data, tertulia.BackgroundEvent)]
    # The first request is still in the history when its first turns are summarised.
    assert [fault for fault in worker.faults if "in what is summarised" not in fault] == []
    assert worker.notes_written
    assert worker.largest <= WINDOW
    assert re.match(r"the conversation fills (?:8[5-9]|9\d) % of the model's window of 20,000 tokens", notices[0])


async def test_a_history_that_cannot_be_made_smaller_is_not_tried_again_each_turn() -> None:
    def reply(request: Any) -> Any:
        if request.instructions == builtin_text("compact"):
            return "x" * 400_000
        done = len(request.items) >= 40
        return say("done") if done else say("", call("update_plan", {"plan": [{"step": "a", "status": "pending"}]}))

    async with Session.start(settings(reply)) as session, RecordedEvents(session) as events:
        await session.root.message("first " + "y" * 100)
        await session.root.message("z" * WINDOW * 4)
        notices = [event.data for event in events.drain() if isinstance(event.data, tertulia.BackgroundEvent)]
    assert 1 <= sum("model's window" in data.message for data in notices) <= 2
