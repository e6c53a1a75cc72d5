"""The one operation set: name → input → handler. Every surface calls this; none adds behaviour of its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any, cast

import msgspec
from msgspec.structs import asdict, replace

from tertulia.errors import ClosedError, InvalidParamsError, MethodNotFoundError, TertuliaError
from tertulia.policy.limits import limits_from_wire
from tertulia.policy.rights import Narrowing, narrow
from tertulia.protocol import inputs as i
from tertulia.protocol.conversation_fields import RIGHT_FIELDS
from tertulia.protocol.name_hints import word_hint
from tertulia.session import answers as a
from tertulia.session import describe
from tertulia.session.agents import answers as g
from tertulia.session.approvals import answers as approval_answers
from tertulia.session.board.answers import BoardAnswer
from tertulia.session.checkpoints import answers as ca
from tertulia.session.checkpoints import inputs as ci
from tertulia.session.host import Host
from tertulia.session.inputs import convert, to_snake_case
from tertulia.session.mcp.answers import ServerList
from tertulia.session.metrics import MetricsAnswer
from tertulia.session.records import answers as ra
from tertulia.session.records import inputs as ri
from tertulia.session.rights.answers import RightsAnswer
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.workspace import check_directory_exists, workspace_of
from tertulia.session.shutdown import close_conversation
from tertulia.session.submission import TakeBackAnswer
from tertulia.session.transactions import change_conversation, open_conversation

_SESSION_RIGHTS = [name for name in i.SessionFields.__struct_fields__ if name in RIGHT_FIELDS and name != "limits"]

_log = logging.getLogger(__name__)


class OperationResult(msgspec.Struct, frozen=True):
    """What an operation answers, and the event that has to be sent before it."""

    answer: Any
    after_seq: int = 0


class Operation(msgspec.Struct, frozen=True):
    """One entry of the set."""

    kind: type[msgspec.Struct]
    """The type of the parameters that it takes."""
    answers: Any
    """The type of what it answers, or a union of them."""
    run: Callable[[Host, Session, Any], Awaitable[Any]]


# ── handlers ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _session_start(host: Host, session: Session, params: i.StartSession) -> a.SessionInfo:
    settings, narrowed = _narrowed_settings(host.settings, params)
    started = await host.start(settings)
    return replace(started.info, narrowed=list(narrowed))


async def _session_resume(host: Host, session: Session, params: i.ResumeSession) -> a.SessionInfo:
    settings, narrowed = _narrowed_settings(host.settings, params)
    # Only the owner knows its directory: naming a session does not give a client access to it.
    settings = replace(settings, cwd=workspace_of(settings))
    resumed = await host.resume(params.session_id, settings, continue_tasks=bool(params.continue_tasks))
    return replace(resumed.info, narrowed=list(narrowed))


async def _session_list(host: Host, session: Session, params: i.NoParams) -> a.SessionList:
    return a.SessionList([s.info for s in host.sessions])


async def _session_info(host: Host, session: Session, params: i.NoParams) -> a.SessionInfo:
    return session.info


async def _session_board(host: Host, session: Session, params: i.GetBoard) -> BoardAnswer:
    return await session.parts.board_keeper.answer(params.max_cells)


async def _session_close(host: Host, session: Session, params: i.CloseSession) -> OperationResult:
    already = session.closed
    forced = await host.close_session(session, params.timeout_s)
    answer = a.CloseAnswer(closed=True, already_closed=already, forced=forced)
    return OperationResult(answer, session.parts.bus.last_seq)


async def _open(host: Host, session: Session, params: i.NewConversation) -> Any:
    parts = session.parts
    conversation, resolved = await open_conversation(parts, params)
    return describe.open_answer(parts, conversation, resolved)


async def _set_context(host: Host, session: Session, params: i.SetContext) -> Any:
    parts = session.parts
    conversation = parts.conversations.find(params.conversation_id)
    resolved = await change_conversation(parts, conversation, params)
    return describe.open_answer(parts, conversation, resolved)


async def _context(host: Host, session: Session, params: i.ConversationParams) -> Any:
    return await session.conversation(params.conversation_id).context()


async def _message(host: Host, session: Session, params: i.Message) -> Any:
    submission = session.conversation(params.conversation_id).submit(params)
    if params.detach:
        submission.detach()
        await submission.record()
        return a.DetachAnswer(submission.task_id)
    reply = await submission.reply()
    return OperationResult(a.message_answer(reply), reply.last_seq)


async def _steer(host: Host, session: Session, params: i.Steer) -> Any:
    await session.conversation(params.conversation_id).steer(params.text)
    return a.SteerAnswer()


async def _take_back(host: Host, session: Session, params: i.TakeBack) -> Any:
    return await session.conversation(params.conversation_id).take_back(params.task_id)


async def _interrupt(host: Host, session: Session, params: i.InterruptConversation) -> Any:
    return await session.conversation(params.conversation_id).interrupt(scope=params.scope)


async def _compact(host: Host, session: Session, params: i.ConversationParams) -> Any:
    compacted = await session.conversation(params.conversation_id).compact()
    return OperationResult(compacted, session.parts.bus.last_seq)


async def _list(host: Host, session: Session, params: i.NoParams) -> Any:
    parts = session.parts
    return a.ConversationList([describe.conversation(parts, conversation) for conversation in parts.conversations])


async def _history(host: Host, session: Session, params: i.GetHistory) -> Any:
    return a.HistoryAnswer(await session.conversation(params.conversation_id).history(params.limit))


async def _tools(host: Host, session: Session, params: i.ConversationParams) -> Any:
    parts = session.parts
    await parts.servers.settle()
    tools, key = describe.tools(parts, parts.conversations.find(params.conversation_id))
    return a.ToolList(tools, key)


async def _fork(host: Host, session: Session, params: i.ForkConversation) -> Any:
    fork = await session.conversation(params.conversation_id).fork(params.at)
    return a.ForkAnswer(fork.id)


async def _merge(host: Host, session: Session, params: i.MergeConversation) -> Any:
    # Loaded when it is used: most sessions have no worktree. By id, because a closed conversation can be merged too.
    from tertulia.session.merging.child_merge import merge_child

    answer = await merge_child(session.parts, params.conversation_id, params.mode)
    return OperationResult(answer, session.parts.bus.last_seq)


async def _close(host: Host, session: Session, params: i.CloseConversation) -> Any:
    return await close_conversation(session.parts, params.conversation_id, params.timeout_s)


async def _task_list(host: Host, session: Session, params: i.NoParams) -> Any:
    return a.TaskList(session.activity.tasks)


async def _task_get(host: Host, session: Session, params: i.TaskParams) -> Any:
    return await session.activity.task(params.task_id)


async def _task_cancel(host: Host, session: Session, params: i.CancelTask) -> Any:
    await session.activity.task(params.task_id)
    return a.CancelAnswer(session.activity.cancel(params.task_id, scope=params.scope))


async def _approvals(host: Host, session: Session, params: i.ListApprovals) -> Any:
    approvals = session.approvals
    of = params.conversation_id
    return approval_answers.ApprovalList(await approvals.pending(of), await approvals.elicitations(of))


async def _approval(host: Host, session: Session, params: i.GetApproval) -> Any:
    return await session.approvals.get(params.approval_id, params.part, params.offset)


async def _resolve(host: Host, session: Session, params: i.ResolveApproval) -> Any:
    return await session.approvals.resolve(**asdict(params))


async def _grants(host: Host, session: Session, params: i.ListApprovals) -> Any:
    return approval_answers.GrantList(await session.approvals.grants(params.conversation_id))


async def _revoke(host: Host, session: Session, params: i.RevokeGrant) -> Any:
    return await session.approvals.revoke(params.grant_id)


async def _explain_rights(host: Host, session: Session, params: i.ExplainRights) -> Any:
    # Loaded when it is used: few clients ask.
    from tertulia.session.rights.explain_rights import explain_rights

    return await explain_rights(session.parts, params)


async def _mcp_status(host: Host, session: Session, params: i.NoParams) -> Any:
    return ServerList(await session.mcp.status())


async def _mcp_refresh(host: Host, session: Session, params: i.RefreshServers) -> Any:
    return ServerList(await session.mcp.refresh(params.names))


async def _canvas_get(host: Host, session: Session, params: i.ConversationParams) -> Any:
    conversation = session.parts.conversations.find(params.conversation_id)
    return g.CanvasAnswer(**asdict(session.parts.agent_registry.canvases.get(conversation.id)))


async def _canvas_list(host: Host, session: Session, params: i.NoParams) -> Any:
    shown = session.parts.agent_registry.canvases.list()
    return g.CanvasList([g.canvas_info(conversation, canvas) for conversation, canvas in shown.items()])


async def _canvas_clear(host: Host, session: Session, params: i.ConversationParams) -> Any:
    conversation = session.parts.conversations.find(params.conversation_id)
    return g.CanvasClearAnswer(session.parts.agent_registry.canvases.clear(conversation.id))


async def _validate_token(host: Host, session: Session, params: i.ValidateToken) -> Any:
    owner = session.parts.agent_registry.internal.validate_token(params.token)
    return g.TokenOwner(owner.agent_name, owner.session_id, owner.pid)


async def _internal_call(host: Host, session: Session, params: i.InternalCall) -> Any:
    internal = session.parts.agent_registry.internal
    return g.InternalCallAnswer(await internal.call(params.token, params.tool, params.arguments, source="rpc"))


async def _metrics(host: Host, session: Session, params: i.GetMetrics) -> Any:
    return await session.metrics(params.conversation_id)


def _of_checkpoints(name: str) -> Callable[[Host, Session, Any], Awaitable[Any]]:
    return lambda host, session, params: getattr(session.parts.checkpoints.requests, name)(params)


def _of_services(name: str) -> Callable[[Host, Session, Any], Awaitable[Any]]:
    """The handler of an operation on stored sessions, which needs none that runs."""
    return lambda host, session, params: attrgetter(name)(host.services)(params)


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────

OPERATIONS: dict[str, Operation] = {
    "session/start": Operation(i.StartSession, a.SessionInfo, _session_start),
    "session/resume": Operation(i.ResumeSession, a.SessionInfo, _session_resume),
    "session/list": Operation(i.NoParams, a.SessionList, _session_list),
    "session/info": Operation(i.NoParams, a.SessionInfo, _session_info),
    "session/board": Operation(i.GetBoard, BoardAnswer, _session_board),
    "session/close": Operation(i.CloseSession, a.CloseAnswer, _session_close),
    "conversation/open": Operation(i.NewConversation, a.OpenAnswer, _open),
    "conversation/set_context": Operation(i.SetContext, a.OpenAnswer, _set_context),
    "conversation/context": Operation(i.ConversationParams, a.ContextInfo, _context),
    "conversation/message": Operation(i.Message, a.MessageAnswer | a.DetachAnswer, _message),
    "conversation/steer": Operation(i.Steer, a.SteerAnswer, _steer),
    "conversation/take_back": Operation(i.TakeBack, TakeBackAnswer, _take_back),
    "conversation/interrupt": Operation(i.InterruptConversation, a.InterruptAnswer, _interrupt),
    "conversation/compact": Operation(i.ConversationParams, a.CompactAnswer, _compact),
    "conversation/list": Operation(i.NoParams, a.ConversationList, _list),
    "conversation/history": Operation(i.GetHistory, a.HistoryAnswer, _history),
    "conversation/tools": Operation(i.ConversationParams, a.ToolList, _tools),
    "conversation/fork": Operation(i.ForkConversation, a.ForkAnswer, _fork),
    "conversation/merge": Operation(i.MergeConversation, a.MergeAnswer, _merge),
    "conversation/close": Operation(i.CloseConversation, a.CloseAnswer, _close),
    "task/list": Operation(i.NoParams, a.TaskList, _task_list),
    "task/get": Operation(i.TaskParams, a.TaskInfo, _task_get),
    "task/cancel": Operation(i.CancelTask, a.CancelAnswer, _task_cancel),
    "approval/list": Operation(i.ListApprovals, approval_answers.ApprovalList, _approvals),
    "approval/get": Operation(i.GetApproval, approval_answers.ApprovalText, _approval),
    "approval/resolve": Operation(i.ResolveApproval, approval_answers.ResolveAnswer, _resolve),
    "approval/grants": Operation(i.ListApprovals, approval_answers.GrantList, _grants),
    "approval/revoke": Operation(i.RevokeGrant, approval_answers.RevokeAnswer, _revoke),
    "checkpoint/list": Operation(ci.ListCheckpoints, ca.CheckpointList, _of_checkpoints("list")),
    "checkpoint/diff": Operation(ci.DiffCheckpoint, ca.CheckpointDiff, _of_checkpoints("diff")),
    "checkpoint/restore": Operation(ci.RestoreCheckpoint, ca.RestoreAnswer, _of_checkpoints("restore")),
    "rights/explain": Operation(i.ExplainRights, RightsAnswer, _explain_rights),
    "mcp/status": Operation(i.NoParams, ServerList, _mcp_status),
    "mcp/refresh": Operation(i.RefreshServers, ServerList, _mcp_refresh),
    "canvas/get": Operation(i.ConversationParams, g.CanvasAnswer, _canvas_get),
    "canvas/list": Operation(i.NoParams, g.CanvasList, _canvas_list),
    "canvas/clear": Operation(i.ConversationParams, g.CanvasClearAnswer, _canvas_clear),
    "internal/validate_token": Operation(i.ValidateToken, g.TokenOwner, _validate_token),
    "internal/call": Operation(i.InternalCall, g.InternalCallAnswer, _internal_call),
    "metrics/get": Operation(i.GetMetrics, MetricsAnswer, _metrics),
    "record/list": Operation(ri.ListRecords, ra.RecordList, _of_services("records.list")),
    "record/outline": Operation(ri.RecordParams, ra.RecordOutline, _of_services("records.outline")),
    "record/page": Operation(ri.GetRecordPage, ra.RecordPage, _of_services("records.page")),
    "record/board": Operation(ri.GetRecordBoard, ra.RecordBoard, _of_services("records.board")),
    "record/prompt": Operation(ri.GetRecordedPrompt, ra.RecordedPromptAnswer, _of_services("records.prompt")),
    "record/search": Operation(ri.SearchRecords, ra.RecordHits, _of_services("records.search")),
    "record/fork": Operation(ri.ForkRecordParams, ra.RecordForkAnswer, _of_services("fork")),
    "record/delete": Operation(ri.DeleteRecord, ra.RecordDeleteAnswer, _of_services("delete")),
}


NO_OWN_SESSION = "session_id is missing: there is no session of the connection's own that could be meant"
_OF_RECORDS = frozenset(name for name in OPERATIONS if name.startswith("record/"))
_OF_STORED = frozenset(name for name, made in OPERATIONS.items() if "session_id" in made.kind.__struct_fields__)
"""Operations on stored sessions, which need not run: `session_id` is an ordinary parameter of these."""
_WITHOUT_SESSION = _OF_RECORDS | {"session/start", "session/resume", "session/list"}
_EVEN_CLOSED = _WITHOUT_SESSION | {"session/close"}


async def call(host: Host, own: Session | None, name: str, params: Mapping[str, Any]) -> OperationResult:
    """Run one operation, on the caller's own session, if it has one, unless `session_id` names another."""
    operation = OPERATIONS.get(name)
    if operation is None:
        hint = word_hint(name[:64], OPERATIONS) or "; `tertulia schema` prints all that there are"
        raise MethodNotFoundError(f"there is no operation {name[:64]!r}{hint}")
    work = _call(host, own, name, operation, params)
    if not _log.isEnabledFor(logging.DEBUG):
        return await work
    # Imported here: few processes log this.
    from tertulia.events.debug_trace import traced

    return await traced(name, work)


async def _call(
    host: Host, own: Session | None, name: str, operation: Operation, params: Mapping[str, Any]
) -> OperationResult:
    fields = to_snake_case(params)
    session_id = None if name in _OF_STORED else fields.pop("session_id", None)
    if session_id is not None and not isinstance(session_id, str):
        raise InvalidParamsError("session_id must be a string")
    try:
        session = None if name in _OF_RECORDS else own if session_id is None else host[session_id]
    except ClosedError:
        if name != "session/close":
            raise
        return OperationResult(a.CloseAnswer(closed=True, already_closed=True, forced=False))
    if session is None and name not in _WITHOUT_SESSION:
        raise InvalidParamsError(NO_OWN_SESSION)
    if session is not None and session.closed and name not in _EVEN_CLOSED:
        raise ClosedError(f"session {session.id} is closed; name another one, or start one")
    answer = await _run(operation, host, cast(Session, session), convert(operation.kind, fields))
    return answer if isinstance(answer, OperationResult) else OperationResult(answer)


async def _run(operation: Operation, host: Host, session: Session | None, params: Any) -> Any:
    """The answer without session tokens: an agent gets its token in another way."""
    redactor = None if session is None or session.closed else session.parts.redactor
    try:
        answer = await operation.run(host, cast(Session, session), params)
    except TertuliaError as error:
        if redactor is not None:
            error.message = redactor.without_tokens(error.message)
        raise
    if redactor is None:
        return answer
    if isinstance(answer, OperationResult):
        return replace(answer, answer=await redactor.without_tokens_in_steps(answer.answer))
    return await redactor.without_tokens_in_steps(answer)


def _narrowed_settings(base: Settings, params: i.SessionFields) -> tuple[Settings, tuple[Narrowing, ...]]:
    """The server's settings, narrowed by what a client asked for; a client never widens them."""
    check_directory_exists(params.cwd)
    ceiling = base.rights
    if ceiling.writable_roots is None:
        # Unless the server's owner allows it, no root above the workspace: "/" must not count as narrower than no
        # roots.
        ceiling = replace(ceiling, writable_roots=(workspace_of(base),))
    plain = {n: v for n in ("model", "cwd", "slots") if (v := getattr(params, n)) is not None}
    wanted = {n: v for n in _SESSION_RIGHTS if (v := getattr(params, n)) is not None}
    if base.writable_roots is None and (params.cwd or "").startswith("/"):
        # A client's directory is writable only where the server's own roots are: naming a directory gives no right to
        # it (A8).
        wanted.setdefault("writable_roots", [params.cwd])
    if params.limits is not None:
        wanted["limits"] = limits_from_wire(params.limits, ceiling.limits)
    settings = replace(base, **plain, **wanted)
    parsed = {n: getattr(settings.rights, n) for n in wanted}
    granted, narrowed = narrow(parsed, ceiling, ceiling, "session")
    reported = tuple(cut for cut in narrowed if getattr(params, cut.field) is not None)
    return replace(settings, **{n: getattr(granted, n) for n in wanted}), reported
