"""Going back in time, the time line, and the words of screens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.protocol.ids import CallId, ConversationId
from tertulia.view import cells, rewind
from tertulia.view.conversation_view import ConversationView
from tertulia.view.lanes import Arrow, Pause, Span, lanes_of, pauses
from tertulia.view.rewind import Rewind
from tertulia.view.text import duration, headline, name_of
from tests.tables import each_row
from tests.view.golden import CASES, as_json, events_of, fold, read_case


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_going_back_shows_the_same_as_coming_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewind, "_STEP", 3)
    monkeypatch.setattr(rewind, "_MAX_CHECKPOINTS", 4)
    events = events_of(read_case(path))
    boards = [as_json(fold(events[:count])) for count in range(len(events) + 1)]
    player = Rewind(events)
    assert len(player) == len(events)
    for count in (*range(len(events) + 1), *range(len(events), -1, -1), len(events) // 2, len(events) + 5, -1):
        assert as_json(player.board(count)) == boards[max(0, min(count, len(events)))]


def _events(name: str) -> list[cells.Any]:
    return events_of(read_case(next(path for path in CASES if path.stem == name)))


def test_a_delegation_has_an_arrow_out_and_one_back() -> None:
    lanes = lanes_of(_events("delegation_comes_back"))
    root, tester = ConversationId("root"), ConversationId("tester")
    assert [(span.conversation_id, span.kind, span.ending) for span in lanes.spans] == [
        (root, "user", "replaced"),
        (tester, "target", "completed"),
        (root, "continuation", "completed"),
    ]
    start, end = lanes.spans[1].start, lanes.spans[1].end
    assert end is not None
    assert lanes.arrows == [Arrow(root, tester, start), Arrow(root, tester, end, back=True)]
    assert [mark.name for mark in lanes.marks] == ["conv_create"]


def test_questions_and_their_answers_are_marks() -> None:
    assert [mark.kind for mark in lanes_of(_events("patch_is_refused")).marks] == ["call", "question", "no"]
    assert [mark.kind for mark in lanes_of(_events("two_questions_answered_out_of_order")).marks][-1] == "yes"


def test_a_time_without_a_task_is_a_pause() -> None:
    at = ConversationId("a")
    spans = [Span(at, None, "user", 0.0, 10.0), Span(at, None, "user", 5.0, 8.0), Span(at, None, "user", 100.0)]
    assert pauses(spans) == [Pause(10.0, 100.0)]
    assert pauses(spans, at_least_s=91) == []
    assert pauses([]) == []


def _call(kind: type[cells.Call], **fields: object) -> cells.Call:
    return kind(**{"key": "k", "ts": "", "call_id": CallId("c"), "name": "tool", **fields})


@each_row(
    ("call", "line"),
    [
        (_call(cells.CommandCell, command=["git", "log", "a b"], cwd="/"), "$ git log 'a b'"),
        (_call(cells.CommandCell, command=["sh", "-c", "a\nb"], cwd="/"), "$ a b"),
        (_call(cells.CommandCell, command=["x" * 500], cwd="/"), "$ " + "x" * 197 + "…"),
        (_call(cells.PatchCell, changes=[{"path": "a.py"}]), "changes a.py"),
        (_call(cells.PatchCell, changes=[{"path": "a"}, {"path": "b"}]), "changes 2 files"),
        (_call(cells.HandoffCell, name="conv_create", title="tester"), "asks a new conversation “tester”"),
        (_call(cells.HandoffCell, name="conv_send", target_id=ConversationId("d34feec0-9ae7")), "asks “d34feec0”"),
        (_call(cells.ToolCallCell), "tool"),
        (_call(cells.ToolCallCell, arguments={"deep": {}, "path": "a"}), "tool a"),
        (_call(cells.ToolCallCell, arguments=[1]), "tool"),
        (_call(cells.ToolCallCell, server="fs"), "fs: tool"),
    ],
)
def test_a_call_in_one_line(call: cells.Call, line: str) -> None:
    assert headline(call) == line


@each_row(
    ("seconds", "words"),
    [(0.84, "0.8 s"), (12.4, "12 s"), (60, "1 min"), (185, "3 min 5 s"), (7200, "2 h"), (7800, "2 h 10 min")],
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_conversation_has_a_name() -> None:
    view = ConversationView(id=ConversationId("d34feec0-9ae7"))
    assert (name_of(view, view.id), name_of(view)) == ("root", "d34feec0")
    view.title = "tester"
    assert name_of(view, view.id) == "tester"
