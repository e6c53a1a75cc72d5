"""Folds the events of the session, its conversations, their tasks and the texts of models."""

from __future__ import annotations

from collections.abc import Mapping

from tertulia.protocol import events as e
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.view import cells as c
from tertulia.view.board_state import NOTHING, BoardState, Changes, add_cell, add_notice
from tertulia.view.conversation_view import ConversationView
from tertulia.view.fold import Fold
from tertulia.view.message_events import end_before_beginning

_LATE = 20
"""Cells among which the text of a late piece may be whole already."""


def _configured(board: BoardState, event: e.Event, data: e.SessionConfigured) -> Changes:
    board.session_id, board.root_id, board.model = event.session_id, data.root_conversation_id, data.model
    return Changes(tree=True)


def _opened(board: BoardState, event: e.Event, data: e.ConversationOpened) -> Changes:
    view = board.view(event)
    view.parent_id, view.title, view.model, view.backend = data.parent_id, data.title, data.model, data.backend
    view.closed = False
    parent = None if data.parent_id is None else board.conversations.get(data.parent_id)
    view.depth = 0 if parent is None else parent.depth + 1
    owner = None if event.task_id is None else board.task_owners.get(event.task_id)
    if owner is not None:
        _name_target(board.conversations[owner], view)
    return Changes(view.id, tree=True)


def _name_target(caller: ConversationView, opened: ConversationView) -> None:
    """Calls open their conversations in order: the first one with this title that has none yet."""
    for call in caller.open_calls.values():
        if isinstance(call, c.HandoffCell) and call.target_id is None and call.title == opened.title:
            call.target_id = opened.id
            call.revision += 1
            return


def _closed(board: BoardState, event: e.Event, data: e.ConversationClosed) -> Changes:
    view = board.view(event)
    end_task(board, view)
    view.closed = True
    return Changes(view.id, tree=True)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


def _started(board: BoardState, event: e.Event, data: e.TaskStarted) -> Changes:
    view = board.view(event)
    caller = view.caller_id
    end_task(board, view)
    view.task_id, view.task_kind, view.since, view.failed = event.task_id, data.kind, event.ts, False
    if event.task_id is not None:
        board.task_owners[event.task_id] = view.id
    if data.kind == "continuation":
        view.caller_id = caller
        return Changes(view.id, tree=True)
    if view.plan is not None:
        view.plan.done, view.plan = True, None
    if data.kind == "target":
        view.caller_id = _find_caller(board, view.id)
    return Changes(view.id, tree=True)


def _continued(board: BoardState, event: e.Event, data: e.TaskContinued) -> Changes:
    """The task is the same, in another process: what was asked in its name is asked again."""
    view = board.view(event)
    dropped = _drop_questions(board, view)
    view.task_id, view.task_kind, view.since, view.failed = event.task_id, data.kind, event.ts, False
    view.waits = False
    if event.task_id is not None:
        board.task_owners[event.task_id] = view.id
    text = f"goes on after a crash, attempt {data.attempt}"
    notice = c.NoticeCell(key=f"n{event.seq}", ts=event.ts, seq=event.seq, level="note", text=text, code=None)
    return add_cell(view, notice, tree=True, questions=dropped)


def _find_caller(board: BoardState, target: ConversationId) -> ConversationId | None:
    """Only conversations with a task can wait, so few are looked at."""
    for id in board.task_owners.values():
        if (view := board.conversations.get(id)) is not None and target in view.waiting_targets():
            return id
    return None


def end_task(board: BoardState, view: ConversationView) -> None:
    """The conversation has no task any more."""
    if view.task_id is not None:
        board.task_owners.pop(view.task_id, None)
    view.task_id = view.task_kind = view.since = view.caller_id = None
    view.waits = False
    view.growing.clear()


def _completed(board: BoardState, event: e.Event, data: e.TaskComplete) -> Changes:
    view = board.view(event)
    end_task(board, view)
    view.failed = data.status == "failed"
    cell = c.TaskEndCell(key=f"e{event.seq}", ts=event.ts, seq=event.seq, status=data.status, usage=data.usage)
    return add_cell(view, cell, worth_reading=view.failed, tree=True)


def _aborted(board: BoardState, event: e.Event, data: e.TurnAborted) -> Changes:
    view = board.view(event)
    if (changes := end_before_beginning(view, event)) is not None:
        return changes
    if data.reason == "replaced":
        # It has handed over. The task is kept, so that a conversation opened in its name finds the call.
        view.waits, view.since = True, event.ts
        view.growing.clear()
        return Changes(view.id, tree=True)
    end_task(board, view)
    dropped = data.reason == "crash" and _drop_questions(board, view)
    cell = c.TaskEndCell(key=f"e{event.seq}", ts=event.ts, seq=event.seq, status=data.reason)
    return add_cell(view, cell, tree=True, questions=dropped)


def _drop_questions(board: BoardState, view: ConversationView) -> bool:
    """Forget the open questions of a conversation: the process that asked is gone, and no answer would reach it."""
    open_keys = [cell.key for cell in view.cells if cell.key in board.questions]
    for key in open_keys:
        del board.questions[key]
    view.open_questions = 0
    return bool(open_keys)


# ── what the model writes ────────────────────────────────────────────────────────────────────────────────────


def _grow(board: BoardState, event: e.Event, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> Changes:
    view = board.view(event)
    cell = view.growing.get(data.item_id)
    if cell is not None:
        return Changes(view.id, cell.key) if cell.grow(data.text, data.offset) else NOTHING
    if _is_settled(view, data.item_id):
        # A client that follows events and then takes the board has pieces of answers that are whole in it.
        return NOTHING
    cell = view.growing[data.item_id] = _text_cell(event, data)
    cell.grow(data.text, data.offset)
    return add_cell(view, cell)


def _is_settled(view: ConversationView, item_id: ItemId) -> bool:
    """Looked up with the first piece of a text only, and among the newest cells only."""
    return any(
        cell.key == item_id and cell.done
        for cell in view.cells[-_LATE:]
        if isinstance(cell, c.AssistantCell | c.ReasoningCell)
    )


def _settle(board: BoardState, event: e.Event, data: e.AgentMessage | e.AgentReasoning) -> Changes:
    view = board.view(event)
    cell = view.growing.pop(data.item_id, None)
    changes = None
    if cell is None:
        cell = _text_cell(event, data)
        changes = add_cell(view, cell)
    cell.settle(data.text)
    cell.done, cell.seq = True, event.seq
    return changes or Changes(view.id, cell.key)


def _text_cell(
    event: e.Event, data: e.AgentMessageDelta | e.AgentMessage | e.AgentReasoningDelta | e.AgentReasoning
) -> c.AssistantCell | c.ReasoningCell:
    kind = c.AssistantCell if isinstance(data, e.AgentMessageDelta | e.AgentMessage) else c.ReasoningCell
    return kind(key=data.item_id, ts=event.ts, item_id=data.item_id)


def _counted(board: BoardState, event: e.Event, data: e.TokenCount) -> Changes:
    usage, view = data.usage, board.view(event)
    view.context_tokens, view.context_window = usage.total_tokens, data.context_window
    for counter in (view, board):
        counter.input_tokens += usage.input_tokens
        counter.cached_input_tokens += usage.cached_input_tokens
        counter.output_tokens += usage.output_tokens
        if data.cost_usd is not None:
            counter.cost_usd = (counter.cost_usd or 0.0) + data.cost_usd
    return Changes(view.id, totals=True)


# ── sentences about it ───────────────────────────────────────────────────────────────────────────────────────


def _background(board: BoardState, event: e.Event, data: e.BackgroundEvent) -> Changes:
    view = board.view(event)
    if not data.discard_deltas or not view.growing:
        return add_notice(view, event, data.message, worth_reading=False)
    unfinished = {id(cell) for cell in view.growing.values()}
    view.cells[:] = [cell for cell in view.cells if id(cell) not in unfinished]
    view.unread = max(0, view.unread - len(unfinished))
    view.growing.clear()
    add_notice(view, event, data.message)
    return Changes(view.id, removed=True, tree=True)


def _warning(board: BoardState, event: e.Event, data: e.WarningEvent) -> Changes:
    return add_notice(board.view(event), event, data.message, "warning", data.code)


def _error(board: BoardState, event: e.Event, data: e.ErrorEvent) -> Changes:
    return add_notice(board.view(event), event, data.message, "error", data.code)


def _compacted(board: BoardState, event: e.Event, data: e.HistoryCompacted) -> Changes:
    if data.compacted:
        size = f"{data.before_tokens:,} tokens are {data.after_tokens:,} now"
        text = f"{data.removed_items:,} older items became a summary: {size}"
    else:
        text = f"the history could not be shortened: {data.reason}"
    return add_notice(board.view(event), event, text, worth_reading=False)


def _lagged(board: BoardState, event: e.Event, data: e.SubscriberLagged) -> Changes:
    if data.from_seq is None or data.to_seq is None:
        # Only deltas were dropped: the next delta of each text tells by its offset.
        return NOTHING
    for view in board.conversations.values():
        if not view.closed:
            gap = c.GapCell(key=f"g{data.from_seq}", ts=event.ts, from_seq=data.from_seq, to_seq=data.to_seq)
            add_cell(view, gap, worth_reading=False)
    return Changes(tree=True)


FOLDS: Mapping[type[e.EventData], Fold] = {
    e.SessionConfigured: _configured,
    e.ConversationOpened: _opened,
    e.ConversationClosed: _closed,
    e.TaskStarted: _started,
    e.TaskContinued: _continued,
    e.TaskComplete: _completed,
    e.TurnAborted: _aborted,
    e.AgentMessageDelta: _grow,
    e.AgentReasoningDelta: _grow,
    e.AgentMessage: _settle,
    e.AgentReasoning: _settle,
    e.TokenCount: _counted,
    e.BackgroundEvent: _background,
    e.WarningEvent: _warning,
    e.ErrorEvent: _error,
    e.HistoryCompacted: _compacted,
    e.SubscriberLagged: _lagged,
}
