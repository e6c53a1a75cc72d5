"""Things that tests write and read back."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tertulia.protocol.events import (
    AgentMessage,
    AgentReasoning,
    Event,
    TaskComplete,
    TaskStarted,
    TokenCount,
)
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE, Reasoning, Usage
from tertulia.protocol.records import ItemsRecord, QueuedInputRecord, Record, SubmissionRecord, ToolOutputRecord
from tertulia.protocol.storage import Full
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.row_reader import read_rows
from tertulia.rollout.store import Row, StoredRow
from tests.rollout.recording import (
    TASK,
    TRACE,
    A,
    agreed,
    as_stored,
    assistant,
    call,
    event,
    model_request,
    output,
    user,
    written,
)

LONG = "once upon a time " * 20


def whats(rows: list[Row]) -> list[Event | Record | None]:
    return [line.what for line in read_rows(map(as_stored, rows))]


def turn() -> list[Event | Record]:
    """A turn with one call of a tool, in the order in which things happen."""
    ask = user(LONG + "?", id="u1")
    think = Reasoning(ItemId("r1"), LONG + "!", "chat")
    request = call('{"command":["cat","' + LONG + '"]}')
    result = output(LONG + ".")
    answer = assistant(LONG + ";")
    usage = Usage(1200, 1000, 30, 4, 1230)
    return [
        agreed(Full(), instructions="be brief"),
        SubmissionRecord(A, TASK, TRACE, None),
        ItemsRecord(A, (ask,)),
        event(TaskStarted("user", ask.text[:120]), seq=1),
        model_request(),
        ItemsRecord(A, (think, request)),
        event(AgentReasoning(think.text, think.id), seq=2),
        event(TokenCount(usage, 128_000, "k" * 32), seq=3),
        event(ToolCallBegin(request.call_id, request.name, msgspec.json.decode(request.arguments)), seq=4),
        ToolOutputRecord(A, result),
        event(ToolCallEnd(request.call_id, request.name, True, result.text, False, 12), seq=5),
        ItemsRecord(A, (result,)),
        model_request(),
        ItemsRecord(A, (answer,)),
        event(AgentMessage(answer.text, answer.id), seq=6),
        event(TokenCount(usage, 128_000, "k" * 32), seq=7),
        event(TaskComplete("completed", answer.text, usage), seq=8),
    ]


def stored(*whats: Event | Record) -> list[StoredRow]:
    return list(map(as_stored, written(*whats)))


def without_bodies(rows: Iterable[StoredRow]) -> list[StoredRow]:
    """What a sweep leaves."""
    return [replace(row, body=None) for row in rows]


def conversation() -> list[Event | Record]:
    return [
        agreed(Full(), title="a title"),
        SubmissionRecord(A, TASK, TRACE, None),
        ItemsRecord(A, (user("hello", injected=True), user("and more")), pinned=True, seed=True),
        event(TaskStarted("user", "hel")),
        model_request(),
        ItemsRecord(A, (assistant("hm"), call())),
        event(AgentMessage("hm", ItemId("a1")), seq=2),
        event(ToolCallBegin(CallId("c1"), "shell", {"x": 1}), seq=3),
        ToolOutputRecord(A, output("42", success=False)),
        event(ToolCallEnd(CallId("c1"), "shell", False, "42", True, 7), seq=4),
        QueuedInputRecord(A, user("wait", id="u3")),
        ItemsRecord(A, (output("42", success=False), user("wait", id="u3"))),
        event(TokenCount(NO_USAGE, 10, "key"), seq=5),
        event(TaskComplete("completed", "hm", NO_USAGE), seq=6),
    ]


def damaged(row: StoredRow) -> StoredRow:
    return replace(row, header=b"", body=None, damaged=True)
