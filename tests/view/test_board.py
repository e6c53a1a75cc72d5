"""The reducer: golden cases, and laws that hold for any cut of any stream."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tertulia
from tertulia.protocol.events import EVENT_TYPES, Event
from tertulia.protocol.ids import ConversationId
from tertulia.testing import RecordedEvents, ScriptedAnswer, ScriptedModel, ScriptedRequest, call, say
from tertulia.view import call_events, cells, conversation_view, message_events, task_events
from tertulia.view.board import Board
from tertulia.view.board_state import NOTHING, Changes
from tertulia.view.snapshot import read_snapshot, write_snapshot
from tests.tables import each_row
from tests.view.golden import CASES, as_json, events_of, fold, read_case

SILENT = {
    "checkpoint",
    "session:preparing",
    "session:context-ready",
    "conversation_context_changed",
    "conversation_close_forced",
    "foreign_event",
    "hook_decision",
    "mcp_tool_call_end",
    "mcp_tools_changed",
}
"""Events that change nothing on a screen: another event tells the same, or no person asks for it."""


def test_there_are_cases_for_every_kind_of_event_and_cell() -> None:
    events = [event for path in CASES for event in events_of(read_case(path))]
    kinds = {
        cell["kind"]
        for path in CASES
        for view in read_case(path)["board"]["conversations"].values()
        for cell in view.get("cells", [])
    }
    assert {event.type for event in events} >= set(EVENT_TYPES) - SILENT
    assert kinds == {kind.__struct_config__.tag for kind in cells.Cell.__args__}


def test_every_event_is_folded_or_known_to_be_silent() -> None:
    folded = {kind.type for kind in (*task_events.FOLDS, *message_events.FOLDS, *call_events.FOLDS)}
    assert folded | SILENT == set(EVENT_TYPES)
    assert not folded & SILENT


@each_row("path", CASES, ids=lambda path: path.stem)
def test_golden_case(path: Path) -> None:
    case = read_case(path)
    assert as_json(fold(events_of(case))) == case["board"], case["about"]


@each_row("path", CASES, ids=lambda path: path.stem)
def test_nothing_goes_on_once_the_process_is_gone(path: Path) -> None:
    case = read_case(path)
    board = fold(events_of(case))
    board.stop()
    assert as_json(board) == case.get("stopped", as_json(board)), case["about"]
    assert not board.running()
    assert not board.questions
    assert {view.state for view in board.conversations.values()} <= {"idle", "failed", "closed"}
    assert all(
        cell.done for view in board.conversations.values() for cell in view.cells if isinstance(cell, cells.Call)
    )


@each_row("path", CASES, ids=lambda path: path.stem)
def test_a_snapshot_at_any_event_goes_on_like_the_board(path: Path) -> None:
    events = events_of(read_case(path))
    whole = as_json(fold(events))
    for cut in range(len(events) + 1):
        board = read_snapshot(write_snapshot(fold(events[:cut])))
        for event in events[cut:]:
            board.take(event)
        assert as_json(board) == whole, f"after {cut} events"


@each_row("path", CASES, ids=lambda path: path.stem)
def test_changes_name_every_conversation_that_is_different(path: Path) -> None:
    board = Board()
    for event in events_of(read_case(path)):
        before = as_json(board)
        changes = board.take(event)
        _check_told(before, as_json(board), changes)


def _check_told(before: dict[str, object], after: dict[str, object], changes: Changes) -> None:
    if changes == NOTHING:
        assert {**before, "seq": 0, "epoch": 0} == {**after, "seq": 0, "epoch": 0}
        return
    old, new = before.get("conversations", {}), after.get("conversations", {})
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    different = {id for id in new if new[id] != old.get(id)}
    everywhere = changes.conversation_id is None and changes.tree
    # A target that is opened is named in the call of its caller, which shows it by the new conversation's name.
    assert everywhere or different <= {changes.conversation_id} or changes.tree
    assert changes.questions or before.get("questions") == after.get("questions")
    assert changes.servers or before.get("servers") == after.get("servers")


@given(st.data())
def test_pieces_in_any_cut_with_any_loss_and_repeat_become_the_text(data: st.DataObject) -> None:
    text = data.draw(st.text(min_size=1, max_size=60))
    cell = cells.AssistantCell(key="i", ts="", item_id=tertulia_item("i"))
    shown = 0
    for _ in range(data.draw(st.integers(1, 12))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start, len(text)))
        cell.grow(text[start:end], start)
        shown = max(shown, end if end > start else shown)
    assert cell.length == shown
    assert len(cell.text) == shown - cell.missing
    if not cell.missing:
        assert cell.text == text[:shown]
    cell.settle(text)
    assert (cell.text, cell.missing) == (text, 0)


def tertulia_item(id: str) -> cells.ItemId:
    return cells.ItemId(id)


def test_of_a_long_output_the_end_is_kept() -> None:
    command = cells.CommandCell(key="c", ts="", call_id=cells.CallId("c"), name="shell", command=["yes"], cwd="/")
    written = "".join(chr(97 + n % 26) for n in range(1000))
    for n in range(2000):
        command.grow(written, n * 1000)
    assert len(command.text) <= 2 * cells.MAX_OUTPUT + 1000
    assert command.cut + len(command.text) == command.length == 2_000_000
    assert (written * 2000).endswith(command.text)


def test_the_oldest_cells_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_view, "MAX_CELLS", 100)
    view = conversation_view.ConversationView(id=ConversationId("a"))
    for n in range(1000):
        view.add(cells.NoticeCell(key=str(n), ts="", level="note", text=""))
    assert len(view.cells) <= 100
    assert (view.dropped + len(view.cells), view.cells[-1].key) == (1000, "999")


def test_a_late_reader_gets_the_last_cells_and_what_is_open() -> None:
    events = events_of(read_case(next(path for path in CASES if path.stem == "delegation_under_way")))
    late = read_snapshot(write_snapshot(fold(events), max_cells=0))
    root = late.conversations[ConversationId("root")]
    assert [cell.key for cell in root.cells] == ["c1@5"]
    assert (root.dropped, root.state, late.chain(ConversationId("tester"))) == (1, "waiting", ["root", "tester"])


def test_a_tree_is_in_order_at_any_depth_and_a_cycle_of_callers_ends() -> None:
    board = Board()
    parents = {"a": None, "b": "a", "c": "b", "d": "a", "e": "lost"}
    for id, parent in parents.items():
        board.conversations[ConversationId(id)] = conversation_view.ConversationView(
            id=ConversationId(id), parent_id=None if parent is None else ConversationId(parent)
        )
    assert [view.id for view in board.tree()] == ["a", "b", "c", "d", "e"]
    board.conversations[ConversationId("a")].caller_id = ConversationId("b")
    board.conversations[ConversationId("b")].caller_id = ConversationId("a")
    assert board.chain(ConversationId("a")) == ["b", "a"]


def test_what_was_read_is_not_unread() -> None:
    board = fold(events_of(read_case(next(path for path in CASES if path.stem == "answer_in_pieces"))))
    root = board.conversations[ConversationId("root")]
    assert root.unread == 1
    board.read(root.id)
    board.read(ConversationId("unknown"))
    assert root.unread == 0


def _editor(request: ScriptedRequest) -> ScriptedAnswer:
    if request.last_input == "go":
        return say("I ask two.", *(call("conv_create", {"title": t, "user_instruction": t}) for t in ("a", "b")))
    return say(f"The answer to {request.last_input[:20]}.")


async def test_a_real_session_ends_with_nothing_open() -> None:
    settings = tertulia.Settings(model=ScriptedModel([_editor], repeat=True), slots=2)
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        await session.root.message("go")
    board = fold(events.seen)
    assert [(view.title, view.state) for view in board.conversations.values()] == [
        (None, "idle"),
        ("a", "idle"),
        ("b", "idle"),
    ]
    assert not board.task_owners
    assert not any(view.open_calls or view.growing for view in board.conversations.values())
    handoffs = [cell for cell in board.conversations[session.root.id].cells if isinstance(cell, cells.HandoffCell)]
    assert {cell.target_id for cell in handoffs} == set(board.conversations) - {session.root.id}


async def test_dropped_deltas_change_nothing_in_the_end() -> None:
    settings = tertulia.Settings(model=ScriptedModel([_editor], repeat=True), slots=2)
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        await session.root.message("go")
    luck = random.Random(22)
    for _ in range(20):
        some = [event for event in events.seen if event.seq is not None or luck.random() < 0.5]
        assert _texts(some) == _texts(events.seen)


def _texts(events: list[Event]) -> list[list[str]]:
    views = fold(events).conversations.values()
    return [[cell.text for cell in view.cells if isinstance(cell, cells.AssistantCell)] for view in views]
