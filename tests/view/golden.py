"""Reads the golden cases of the reducer: events in, board out, in JSON that any language can read.

`python -m tests.view.golden` writes the boards anew; read the difference before you commit it.
An event of a case names only what matters: `take` of each needs a type, a conversation, a task and data. A case
may also have `stopped`: the board once the process has ended, of which no event tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tertulia.protocol.events import EVENT_TYPES, Event
from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.view.board import Board
from tertulia.view.snapshot import write_snapshot

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


def read_case(path: Path) -> dict[str, Any]:
    """What the file holds: `about`, `events`, `board`, and in some `stopped`."""
    return json.loads(path.read_text(encoding="utf-8"))


def events_of(case: Mapping[str, Any]) -> list[Event]:
    """The events of a case, numbered in order and a second apart where they do not say otherwise."""
    return list(_events(case["events"]))


def _events(written: Iterable[Mapping[str, Any]]) -> Iterable[Event]:
    seq = 0
    for number, one in enumerate(written):
        kind = EVENT_TYPES[one["type"]]
        passing = not kind.durable
        seq = seq if passing else one.get("seq", seq + 1)
        task = one.get("task")
        yield Event(
            epoch=one.get("epoch", 1),
            seq=None if passing else seq,
            ts=one.get("ts", f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z"),
            type=kind.type,
            session_id=SessionId("session"),
            sub_id="sub",
            conversation_id=None if one.get("conversation") is None else ConversationId(one["conversation"]),
            task_id=None if task is None else TaskId(task),
            trace_id=None,
            span_id=None,
            data=msgspec.convert(one.get("data", {}), kind),
        )


def fold(events: Iterable[Event]) -> Board:
    """The board after these events."""
    board = Board()
    for event in events:
        board.take(event)
    return board


def as_json(board: Board) -> dict[str, Any]:
    """The board as it goes over a wire."""
    return json.loads(write_snapshot(board))


def _write_all() -> None:
    for path in CASES:
        case = read_case(path)
        board = fold(events_of(case))
        case["board"] = as_json(board)
        if "stopped" in case:
            board.stop()
            case["stopped"] = as_json(board)
        path.write_text(json.dumps(case, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write_all()
