"""The outline of a record, made of headers, is the time line that its events give."""

from __future__ import annotations

import json
from typing import Any

from tertulia import Session, Settings
from tertulia.testing import ScriptedModel, call, say
from tertulia.view.lanes import lanes_of
from tests.rollout.homes import add_session, encoded, session_rows
from tests.rollout.stages import NOW, row
from tests.session.records.looking import ASKS, Looker, home, recorded

CANARY = "canary-44e1"


def times(entries: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [
        tuple(round(entry[name], 3) if isinstance(entry[name], float) else entry[name] for name in names)
        for entry in entries
    ]


async def test_spans_marks_arrows_and_requests_are_those_of_the_events() -> None:
    """UI.md 7.5: from headers alone, the shapes of `view/lanes`."""
    session, events = await recorded(ASKS, "4", "It is 4.", messages=2)
    outline = await Looker()("outline", session_id=session.id)
    lanes = lanes_of(events)
    assert times(outline["spans"], "conversation_id", "task_id", "kind", "start", "end", "ending") == [
        (span.conversation_id, span.task_id, span.kind, span.start, span.end, span.ending) for span in lanes.spans
    ]
    assert times(outline["marks"], "conversation_id", "kind", "at", "name") == [
        (mark.conversation_id, mark.kind, mark.at, mark.name) for mark in lanes.marks
    ]
    assert [(arrow["caller_id"], arrow["target_id"], arrow.get("back", False)) for arrow in outline["arrows"]] == [
        (arrow.caller_id, arrow.target_id, arrow.back) for arrow in lanes.arrows
    ]
    assert [lane["id"] for lane in outline["conversations"]] == list(
        dict.fromkeys(event.conversation_id for event in events if event.type == "conversation_opened")
    )
    assert [lane.get("title") for lane in outline["conversations"]] == [None, "sums"]
    counts = outline["counts"]
    assert (counts["requests"], counts["calls"], counts["failed_calls"], counts["not_stored"]) == (4, 1, 0, 0)
    assert len(outline["requests"]) == 4
    assert outline["last_n"] >= outline["spans"][-1]["last_n"] > outline["spans"][-1]["first_n"] > 0
    assert outline["damaged"] == 0


async def test_questions_and_failed_calls_are_marks() -> None:
    model = ScriptedModel([say("", call("shell", {"command": ["rm", "-r", "x"], "justification": CANARY}, "c1")), "no"])

    settings = Settings(model=model, approval_policy="on-request", sandbox="read-only")
    async with Session.start(settings, on_approval=lambda request: "deny") as session:
        await session.root.message("go")
    outline = await Looker()("outline", session_id=session.id)
    kinds = [mark["kind"] for mark in outline["marks"]]
    assert kinds[0] == "call"
    assert outline["counts"]["failed_calls"] == 1
    assert CANARY not in json.dumps(outline)


async def test_it_has_no_text_whatever_is_stored_but_titles_where_they_are() -> None:
    """S002-44."""
    session, _ = await recorded(CANARY, storage_policy="headers_only")
    outline = await Looker()("outline", session_id=session.id)
    assert CANARY not in json.dumps(outline)
    assert outline["counts"]["not_stored"] == outline["counts"]["items"] > 0


async def test_headers_that_another_program_wrote_mislead_no_reader() -> None:
    """HARDENING: rows with a right checksum and nonsense in them."""
    nonsense = [
        row(20, None, kind="event", type="task_started", conversation=3, header=b"{"),
        row(21, None, kind="event", type="task_started", conversation=99, header=b"{}"),
        row(22, None, kind="task", type="task", conversation=3, header=encoded(ids="x")),
        row(23, None, kind="event", type="task_complete", conversation=3, header=encoded(status=7)),
        row(24, None, kind="conversation", type="conversation", conversation=24, header=encoded(id=[1])),
        row(25, None, kind="asked", type="", conversation=3, task=22, header=b"[]"),
        row(26, None, kind="event", type="conversation_opened", conversation=3, header=encoded(parent_id=5)),
        row(27, None, kind="event", type="conversation_closed", conversation=3, ts=NOW + 5),
        row(28, None, kind="event", type="turn_aborted", conversation=3, header=encoded(reason="crash")),
    ]
    files = add_session(home(), [*session_rows("hello"), *nonsense])
    outline = await Looker()("outline", session_id=files.session_id)
    (span,) = outline["spans"]
    assert (span["ending"], span["kind"], span["task_id"]) == ("completed", "user", None)
    assert [request["n"] for request in outline["requests"]] == [25]
    (lane,) = outline["conversations"]
    assert (lane["id"], lane["parent_id"], lane["closed_at"]) == ("~u", None, NOW + 5)


async def test_a_pause_is_told_and_a_task_that_was_cut_off_has_no_end() -> None:
    events: list[tuple[str, int, dict[str, Any]]] = [
        ("conversation_opened", 0, {}),
        ("task_started", 1, {"ids": [None, "t", None, None]}),
        ("task_complete", 2, {}),
        ("task_started", 500, {}),
        ("tool_call_begin", 501, {"name": "shell"}),
        ("approval_request", 502, {"kind": "exec"}),
        ("approval_resolved", 503, {"decision": "allow"}),
        ("approval_resolved", 504, {"decision": "deny"}),
        ("tool_call_end", 505, {"success": False}),
    ]
    rows = [
        row(20 + place, None, type=type, conversation=3, task=21 * (place < 3), ts=NOW + at, header=encoded(**header))
        for place, (type, at, header) in enumerate(events)
    ]
    files = add_session(home(), [*session_rows("hello"), *rows])
    outline = await Looker()("outline", session_id=files.session_id)
    assert outline["pauses"] == [{"start": NOW + 2, "end": NOW + 500}]
    first, second = outline["spans"]
    assert (first["task_id"], first["end"]) == ("t", NOW + 2)
    assert ("end" in second, second["last_n"]) == (False, 28)
    assert [(mark["kind"], mark.get("name", "")) for mark in outline["marks"]] == [
        ("call", "shell"), ("question", "exec"), ("yes", ""), ("no", ""),
    ]  # fmt: skip
    assert outline["counts"]["failed_calls"] == 1
