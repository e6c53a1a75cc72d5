"""Folds the events of calls: tools, commands, patches, MCP servers, and what persons are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.view import cells as c
from tertulia.view.board_state import NOTHING, BoardState, Changes, ServerView, add_cell, add_notice, change_cell
from tertulia.view.conversation_view import ConversationView
from tertulia.view.fold import Fold
from tertulia.view.task_events import end_task

_HANDOFFS = frozenset({"conv_create", "conv_send"})
"""The tools whose calls wait for another conversation."""
_PLAN_TOOL = "update_plan"
"""Its calls have no cell of their own: the plan has one."""


def _begun(board: BoardState, event: e.Event, data: t.ToolCallBegin) -> Changes:
    if data.name == _PLAN_TOOL:
        return NOTHING
    view = board.view(event)
    return _open_call(view, _call_cell(event, data))


def _call_cell(event: e.Event, data: t.ToolCallBegin) -> c.Call:
    return make_call_cell(data.name, data.arguments, _fields_of_call(event, data.call_id, None))


def make_call_cell(name: str, arguments: Any, fields: dict[str, Any]) -> c.ToolCallCell | c.HandoffCell:
    """A call that has begun, of a tool or of another conversation; `fields`: what else is known of it."""
    fields = {**fields, "name": name, "arguments": arguments}
    if name not in _HANDOFFS:
        return c.ToolCallCell(**fields)
    values = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    target, title = values.get("conversation_id"), values.get("title")
    return c.HandoffCell(
        **fields,
        target_id=ConversationId(target) if isinstance(target, str) else None,
        title=title if isinstance(title, str) else None,
    )


def _open_call(view: ConversationView, call: c.Call) -> Changes:
    view.open_calls[call.call_id] = call
    return add_cell(view, call, worth_reading=False, tree=True)


def _open_call_of(board: BoardState, event: e.Event, call_id: CallId) -> tuple[ConversationView, c.Call | None]:
    """The conversation of an event, and its open call of that id."""
    view = board.view(event)
    return view, view.open_calls.get(call_id)


def _ended(board: BoardState, event: e.Event, data: t.ToolCallEnd) -> Changes:
    view = board.view(event)
    call = view.open_calls.pop(data.call_id, None)
    if call is None:
        # A plan, or a call whose beginning this reader has not seen.
        return NOTHING
    call.done, call.success = True, data.success
    call.truncated, call.duration_ms = data.truncated, data.duration_ms
    if not isinstance(call, c.CommandCell) or call.exit_code is None:
        call.settle(data.output)
    if view.waits and event.task_id == view.task_id and not view.waiting_targets():
        # Every call was answered and no continuation has begun: the chain was stopped.
        end_task(board, view)
    return change_cell(view, call, tree=True)


# ── commands and patches ─────────────────────────────────────────────────────────────────────────────────────


def _command_begun(board: BoardState, event: e.Event, data: t.ExecCommandBegin) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    command = c.CommandCell(
        **_fields_of_call(event, data.call_id, call),
        allowed_by=data.allowed_by,
        command=data.command,
        cwd=data.cwd,
        sandbox=data.sandbox,
    )
    return _become(view, call, command)


def _fields_of_call(event: e.Event, call_id: CallId, call: c.Call | None) -> dict[str, Any]:
    """What a cell has from the call that it is; None: there is no call, or no cell of it yet."""
    own = {"key": f"{call_id}@{event.seq}", "name": "", "arguments": None}
    shown = own if call is None else {"key": call.key, "name": call.name, "arguments": call.arguments}
    return {**shown, "ts": event.ts, "seq": event.seq, "call_id": call_id}


def _become(view: ConversationView, call: c.Call | None, special: c.Call) -> Changes:
    """The call is now known to be a command or a patch: its cell stays where it is."""
    if call is None:
        return _open_call(view, special)
    special.revision = call.revision
    view.replace(call, special)
    view.open_calls[special.call_id] = special
    return change_cell(view, special, tree=True)


def _command_output(board: BoardState, event: e.Event, data: t.ExecCommandOutputDelta) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    if call is None or not call.grow(data.text, data.offset):
        return NOTHING
    return Changes(view.id, call.key)


def _command_ended(board: BoardState, event: e.Event, data: t.ExecCommandEnd) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    if not isinstance(call, c.CommandCell):
        return NOTHING
    call.settle(data.output)
    call.exit_code, call.cut = data.exit_code, 0
    call.truncated, call.duration_ms = data.truncated, data.duration_ms
    call.allowed_by = data.allowed_by or call.allowed_by
    _close_own(view, call)
    return Changes(view.id, call.key)


def _close_own(view: ConversationView, call: c.Call) -> None:
    """What an executor runs by itself is no call of a model, so no end of one follows."""
    if not call.name:
        del view.open_calls[call.call_id]
        call.done = True


def _patch_begun(board: BoardState, event: e.Event, data: t.PatchApplyBegin) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    patch = c.PatchCell(
        **_fields_of_call(event, data.call_id, call),
        changes=data.changes,
        diff=data.diff,
    )
    return _become(view, call, patch)


def _patch_ended(board: BoardState, event: e.Event, data: t.PatchApplyEnd) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    if call is None:
        return NOTHING
    call.settle(data.message)
    call.success, call.allowed_by = data.success, data.allowed_by
    _close_own(view, call)
    return Changes(view.id, call.key)


# ── MCP servers ──────────────────────────────────────────────────────────────────────────────────────────────


def _server_called(board: BoardState, event: e.Event, data: t.McpToolCallBegin) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    if not isinstance(call, c.ToolCallCell):
        return NOTHING
    call.server, call.allowed_by = data.server, data.allowed_by
    return change_cell(view, call)


def _server_progress(board: BoardState, event: e.Event, data: t.McpToolCallProgress) -> Changes:
    view, call = _open_call_of(board, event, data.call_id)
    if not isinstance(call, c.ToolCallCell):
        return NOTHING
    call.progress, call.total, call.message = data.progress, data.total, data.message
    return change_cell(view, call)


def _server_status(board: BoardState, event: e.Event, data: t.McpServerStatus) -> Changes:
    board.servers[data.name] = ServerView(data.name, data.status, data.error)
    return Changes(servers=True)


def _network(board: BoardState, event: e.Event, data: t.NetworkAccess) -> Changes:
    host = f"{data.host}:{data.port}" if data.host else "further hosts"
    times = "" if data.connections == 1 else f", {data.connections:,} connections"
    size = f", {data.bytes:,} bytes" if data.bytes else ""
    why = f" ({data.because})" if data.because else ""
    text = f"network: {host} {data.verdict}{times}{size}{why}"
    return add_notice(board.view(event), event, text, worth_reading=False)


def _searched(board: BoardState, event: e.Event, data: t.WebSearchBegin | t.WebSearchEnd) -> Changes:
    view = board.view(event)
    if isinstance(data, t.WebSearchBegin):
        key = f"{data.call_id}@{event.seq}"
        return _open_call(
            view, c.ToolCallCell(key=key, ts=event.ts, seq=event.seq, call_id=data.call_id, name="web_search")
        )
    call = view.open_calls.pop(data.call_id, None)
    if call is None:
        return NOTHING
    call.arguments, call.done, call.success = {"query": data.query}, True, True
    return change_cell(view, call, tree=True)


# ── plans, canvases and questions ────────────────────────────────────────────────────────────────────────────


def _planned(board: BoardState, event: e.Event, data: t.PlanUpdate) -> Changes:
    view = board.view(event)
    if view.plan is not None:
        view.plan.steps, view.plan.explanation = data.plan, data.explanation
        return change_cell(view, view.plan)
    view.plan = c.PlanCell(
        key=f"p{event.seq}", ts=event.ts, seq=event.seq, steps=data.plan, explanation=data.explanation
    )
    return add_cell(view, view.plan)


def _canvas(board: BoardState, event: e.Event, data: t.CanvasUpdated) -> Changes:
    text = f"canvas “{data.title or 'untitled'}”, revision {data.revision}, {data.bytes:,} bytes"
    return add_notice(board.view(event), event, text)


def _approval_asked(board: BoardState, event: e.Event, data: t.ApprovalRequest) -> Changes:
    cell = c.ApprovalCell(key=data.approval_id, ts=event.ts, seq=event.seq, request=data)
    return _ask(board, event, data.approval_id, cell)


def _elicited(board: BoardState, event: e.Event, data: t.ElicitationRequest) -> Changes:
    return _ask(
        board,
        event,
        data.elicitation_id,
        c.ElicitationCell(key=data.elicitation_id, ts=event.ts, seq=event.seq, request=data),
    )


def _ask(board: BoardState, event: e.Event, id: str, cell: c.Question) -> Changes:
    view = board.view(event)
    view.open_questions += 1
    board.questions[id] = cell
    add_cell(view, cell)
    return Changes(view.id, cell.key, new=True, tree=True, questions=True)


def _approval_resolved(board: BoardState, event: e.Event, data: t.ApprovalResolved) -> Changes:
    cell = board.questions.pop(data.approval_id, None)
    if not isinstance(cell, c.ApprovalCell):
        return NOTHING
    cell.answer = data
    return _answered(board, event, cell)


def _elicitation_resolved(board: BoardState, event: e.Event, data: t.ElicitationResolved) -> Changes:
    cell = board.questions.pop(data.elicitation_id, None)
    if not isinstance(cell, c.ElicitationCell):
        return NOTHING
    cell.action = data.action
    return _answered(board, event, cell)


def _answered(board: BoardState, event: e.Event, cell: c.Question) -> Changes:
    view = board.view(event)
    view.open_questions = max(0, view.open_questions - 1)
    cell.revision += 1
    return Changes(view.id, cell.key, tree=True, questions=True)


FOLDS: Mapping[type[e.EventData], Fold] = {
    t.ToolCallBegin: _begun,
    t.ToolCallEnd: _ended,
    t.ExecCommandBegin: _command_begun,
    t.ExecCommandOutputDelta: _command_output,
    t.ExecCommandEnd: _command_ended,
    t.PatchApplyBegin: _patch_begun,
    t.PatchApplyEnd: _patch_ended,
    t.McpToolCallBegin: _server_called,
    t.McpToolCallProgress: _server_progress,
    t.McpServerStatus: _server_status,
    t.NetworkAccess: _network,
    t.WebSearchBegin: _searched,
    t.WebSearchEnd: _searched,
    t.PlanUpdate: _planned,
    t.CanvasUpdated: _canvas,
    t.ApprovalRequest: _approval_asked,
    t.ApprovalResolved: _approval_resolved,
    t.ElicitationRequest: _elicited,
    t.ElicitationResolved: _elicitation_resolved,
}
