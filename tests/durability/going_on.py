"""A chain of depth three with parallel branches that goes on after every kill, and what is held of it at the end.

The model is a function of what it has read, so that it says the same in every life. What its tools do stands in
FOLDER/effects, outside of the session: `mark` may run twice and says so, `act` does not. An `act` whose outcome is not
known is looked up before it is repeated, as the output asks for.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import tertulia
from tertulia.conversation.cut_task import UNKNOWN
from tertulia.protocol.events import Event
from tertulia.protocol.items import ToolCall, ToolOutput, UserMessage
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.row_reader import read_rows
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.testing import ScriptedModel, ScriptedRequest, call, say
from tests.durability.reference import Notes
from tests.durability.storm import die_somewhere, lines_of

QUESTION = "plan 0"
MESSAGE_ID = "the one message"
ANSWER = "plan 0: act-0 mark-0 [plan 1: act-1 mark-1 [plan 3: act-3 mark-3 []]] [plan 2: act-2 mark-2 []]"
MOST_COMMITS = 26
"""About as many as the chain has."""
CHILDREN = {"0": ("1", "2"), "1": ("3",), "2": (), "3": ()}


def respond(request: ScriptedRequest) -> Any:
    """First two effects and the children, side by side; then what is unclear is looked up; then the whole answer."""
    name = _question(request).split(" ")[1]
    known = list(_outcomes(request))
    outcomes, turn = dict(known), len(known)
    if not outcomes:
        requests = [(child, {"user_instruction": f"plan {child}", "title": child}) for child in CHILDREN[name]]
        acts = [call(tool, {"what": f"{tool}-{name}"}, f"{tool}-{name}") for tool in ("act", "mark")]
        return say(
            f"I plan {name}", *acts, *(call("conv_create", fields, f"ask-{child}") for child, fields in requests)
        )
    match outcomes[f"act-{name}"]:
        case "unclear":
            return call("look", {"what": f"act-{name}"}, f"look-{name}-{turn}")
        case "absent":
            return call("act", {"what": f"act-{name}"}, f"act-{name}-{turn}")
        case _:
            below = " ".join(f"[{outcomes[child]}]" for child in CHILDREN[name]) or "[]"
            return f"plan {name}: act-{name} {outcomes[f'mark-{name}']} {below}"


def _question(request: ScriptedRequest) -> str:
    return next(item.text for item in request.items if isinstance(item, UserMessage) and not item.injected)


def _outcomes(request: ScriptedRequest) -> Iterator[tuple[str, str]]:
    """What has come of each thing, the newest last."""
    calls = {item.call_id: item for item in request.items if isinstance(item, ToolCall)}
    for item in request.items:
        if not isinstance(item, ToolOutput):
            continue
        made = calls[item.call_id]
        arguments = json.loads(made.arguments)
        if made.name == "conv_create":
            answer = json.loads(item.text)
            assert answer["ok"], item.text
            yield arguments["title"], answer["last_assistant_message"]
        elif made.name == "look":
            yield arguments["what"], "done" if item.text == "yes" else "absent"
        else:
            yield arguments["what"], "unclear" if item.text == UNKNOWN else item.text


class GoingOn:
    """One process's part of the chain's life."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told = Notes(folder / "told")
        self._effects = Notes(folder / "effects")

    def settings(self) -> tertulia.Settings:
        @tertulia.tool
        def act(what: str) -> str:
            """Have an effect that must not happen twice."""
            self._effects.add(json.dumps({"did": what}))
            return what

        @tertulia.tool(retry_safe=True)
        async def mark(what: str) -> str:
            """Have an effect that may happen twice."""
            self._effects.add(json.dumps({"did": what}))
            await asyncio.sleep(0)
            return what

        @tertulia.tool(read_only=True)
        def look(what: str) -> str:
            """Say whether an effect has happened."""
            return "yes" if what in self.effects() else "no"

        return tertulia.Settings(
            model=ScriptedModel([respond], repeat=True),
            tools=[act, mark, look],
            slots=3,
            on_restart="continue",
            approval_policy="never",
            sandbox="danger-full-access",
        )

    def effects(self) -> Counter[str]:
        return Counter(line["did"] for line in lines_of(self._folder / "effects"))

    async def run(self) -> str | None:
        """Begin or go on, and ask for the answer under the same message id."""
        begun = next((line["session"] for line in lines_of(self._folder / "told") if "session" in line), None)
        if begun is None:
            entering = tertulia.Session.start(self.settings())
        else:
            entering = tertulia.Session.resume(begun, self.settings(), continue_tasks=True)
        async with entering as session:
            if begun is None:
                await session.activity.flush()
                self._told.add(json.dumps({"session": session.id}))
            reply = await session.root.message(QUESTION, message_id=MESSAGE_ID)
            self._told.add(json.dumps({"text": reply.text, "status": reply.status}))
            return reply.text


async def live(folder: Path, seed: int) -> None:
    """A life that may be killed at any moment. Seed 0 dies nowhere by itself."""
    if seed:
        die_somewhere(seed, MOST_COMMITS)
    await GoingOn(folder).run()


async def check(folder: Path) -> None:
    """The last life: it comes to the answer, and the whole record is as if there had been one."""
    lines = lines_of(folder / "told")
    last = GoingOn(folder)
    answer = await last.run()
    assert answer == ANSWER, answer
    assert all(line["text"] == ANSWER for line in lines if "text" in line)
    effects = last.effects()
    for number in CHILDREN:
        assert effects[f"act-{number}"] == 1, effects
        assert effects[f"mark-{number}"] >= 1, effects
    hold_to_record(folder)


def hold_to_record(folder: Path) -> None:
    """Every task began once and ended once, and every call began once, ended once and has one output."""
    counts: dict[str, Counter[Any]] = {}
    for kind, id in _facts(folder):
        counts.setdefault(kind, Counter())[id] += 1
    for kind in ("task_started", "end", "tool_call_begin", "tool_call_end", "call", "output"):
        assert set(counts[kind].values()) == {1}, (kind, counts[kind])
    assert counts["task_started"].keys() == counts["end"].keys()
    ids = counts["call"].keys()
    assert all(ids == counts[kind].keys() for kind in ("output", "tool_call_begin", "tool_call_end"))
    assert len(counts["conversation_opened"]) == len(CHILDREN), counts["conversation_opened"]


def _facts(folder: Path) -> Iterator[tuple[str, Any]]:
    session = next(line["session"] for line in lines_of(folder / "told") if "session" in line)
    with closing(SqliteReader(folder / "home" / "sessions" / f"{session}.db")) as reader:
        for line in read_rows(reader.rows()):
            match line.what:
                case Event(type="task_started" | "task_continued" as type, task_id=task_id):
                    yield type, task_id
                case Event(type="task_complete" | "turn_aborted", task_id=task_id):
                    yield "end", task_id
                case Event(data=ToolCallBegin(call_id=call_id) | ToolCallEnd(call_id=call_id), type=type):
                    yield type, call_id
                case Event(type="conversation_opened" as type, conversation_id=id):
                    yield type, id
                case ItemsRecord(items=items):
                    yield from (("call", item.call_id) for item in items if isinstance(item, ToolCall))
                    yield from (("output", item.call_id) for item in items if isinstance(item, ToolOutput))
                case _:
                    pass
