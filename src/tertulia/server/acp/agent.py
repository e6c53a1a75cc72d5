"""Tertulia as an ACP agent, for one client: ACP's methods, and the sessions that it opened.

Thin: what a method does is done by the Host, a Session and its root conversation. The SDK reads the requests; updates
are written by hand, because they are many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from acp import schema as s
from acp.meta import AGENT_METHODS
from pydantic import BaseModel, ValidationError

from tertulia.errors import (
    ClosedError,
    InvalidParamsError,
    NotFoundError,
    TaskCancelledError,
)
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.rollout.sqlite.summaries import SessionSummary
from tertulia.schema.model_errors import explain_problem, model_problems, problem_place
from tertulia.server.acp.content import one_line
from tertulia.server.acp.editor import (
    STEERING_METHOD,
    EditorBuffers,
    EditorCapabilities,
    auth_methods,
    client_server,
    initialize_result,
    read_editor_capabilities,
)
from tertulia.server.acp.session import AcpSession
from tertulia.server.acp.session_options import choose_mode, choose_model
from tertulia.server.client_surface import (
    ERROR_NUMBERS,
    OTHER_ERROR_NUMBER,
    ClientSurface,
    OpenSessions,
    SurfaceMethod,
    SurfaceRefusals,
)
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.request_runner import MethodResult, RpcDialect
from tertulia.server.jsonrpc.stdio import PATIENCE_S, run_on_standard_streams, serve_client
from tertulia.server.session_factory import OpenedSession, SessionFactory, SessionRequest, is_in_folders
from tertulia.session.records.session_pages import session_page
from tertulia.session.resume.deletion import delete_session

M = TypeVar("M", bound=BaseModel)
OpenSessionRequest = s.NewSessionRequest | s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest
CANCEL_REQUEST = "$/cancel_request"
ACP_DIALECT = RpcDialect(
    numbers={
        **ERROR_NUMBERS,
        InvalidParamsError: -32602,
        NotFoundError: -32002,
        ClosedError: -32002,
        TaskCancelledError: -32800,
    },
    # -32000 would have an editor ask its user to log in.
    other_number=OTHER_ERROR_NUMBER,
    counted_apart=(AGENT_METHODS["session_cancel"], CANCEL_REQUEST),
    withdraw=CANCEL_REQUEST,
)
_LENIENT_LISTS = {"mcp_servers": "mcpServers", "additional_directories": "additionalDirectories"}
PAGE = 50
"""Stored sessions on one page of `session/list`."""


class AcpAgent(ClientSurface):
    """One client, from its `initialize` to its end."""

    refusals = SurfaceRefusals(
        "send `initialize` first", "this connection is initialized already", "there is no method {!r}"
    )

    def __init__(self, factory: SessionFactory, sink: Sink) -> None:
        super().__init__(factory, sink, ACP_DIALECT, _METHODS)
        self._editor: EditorCapabilities | None = None
        self._sessions = OpenSessions[AcpSession](factory.host, "session {} is not open here; load or resume it first")

    def input_ended(self) -> None:
        """Nothing more comes from the client: prompts are cancelled, and requests to it count as refused."""
        self.peer.stop_asking()
        for session in self._sessions:
            session.cancel()

    async def close(self, timeout_s: float) -> bool:
        """Close the connection as every surface does, after every prompt is cancelled."""
        self.input_ended()
        return await super().close(timeout_s)

    async def _close_sessions(self) -> None:
        await self._sessions.close()

    async def _run_method(self, method: SurfaceMethod, params: dict[str, Any]) -> MethodResult:
        request = _read(method.reads, params)
        answered = await method.run(self, request)
        for field in _find_skipped_lists(request, params):
            # Not an error: a newer protocol may have more kinds of entries. The client is told what was left out.
            session = self._sessions.find(answered.result.get("sessionId", params.get("sessionId")))
            session.remark(f"{field}: what cannot be read of it is left out")
        return answered

    def _initialize(self, params: dict[str, Any]) -> MethodResult:
        self._editor = read_editor_capabilities(_read(s.InitializeRequest, params))
        return MethodResult(initialize_result(self._editor))

    async def authenticate(self, request: s.AuthenticateRequest) -> MethodResult:
        """`authenticate`: succeeds where a model can answer; NoModel says what is missing. Nothing is kept of it."""
        methods = [method["id"] for method in auth_methods(self._editor or EditorCapabilities())]
        if request.method_id not in methods:
            raise InvalidParamsError(f"methodId must be {' or '.join(methods)}, not {request.method_id[:64]!r}")
        await asyncio.to_thread(self._factory.require_model)
        return MethodResult()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────

    async def new(self, request: s.NewSessionRequest) -> MethodResult:
        """`session/new`: start a session in a directory."""
        session = await self._open(request, self._factory.start)
        return MethodResult({"sessionId": session.session.id, **session.state()}, session.begin)

    async def load(self, request: s.LoadSessionRequest) -> MethodResult:
        """`session/load`: the whole history is sent again, then the answer."""
        session = await self._open(request, partial(self._factory.resume, request.session_id))
        async with _closed_if_unanswered(self._sessions, session):
            await session.retell()
        return MethodResult(session.state(), session.begin)

    async def resume(self, request: s.ResumeSessionRequest) -> MethodResult:
        """`session/resume`: as `session/load`, without the history."""
        session = await self._open(request, partial(self._factory.resume, request.session_id))
        return MethodResult(session.state(), session.begin)

    async def fork(self, request: s.ForkSessionRequest) -> MethodResult:
        """`session/fork`: start a session with the history of another."""
        session = await self._open(request, partial(self._factory.fork, request.session_id))
        return MethodResult({"sessionId": session.session.id, **session.state()}, session.begin)

    async def list(self, request: s.ListSessionsRequest) -> MethodResult:
        """`session/list`: one page of the stored sessions."""
        home = self._factory.environment.home
        return MethodResult(await asyncio.to_thread(list_page, home, request.cwd, request.cursor))

    async def close_session(self, request: s.CloseSessionRequest) -> MethodResult:
        """`session/close`: what runs in it is stopped, and answered as cancelled."""
        await self._sessions.release(self._sessions.find(request.session_id))
        return MethodResult()

    async def delete(self, request: s.DeleteSessionRequest) -> MethodResult:
        """`session/delete`: remove all that is stored of it. What is not there is no mistake."""
        session = self._sessions.get(request.session_id)
        if session is not None:
            await self._sessions.release(session)
        factory = self._factory
        with suppress(NotFoundError):
            await delete_session(factory.environment, factory.host.settings, SystemClock(), request.session_id)
        return MethodResult()

    # ── one session ──────────────────────────────────────────────────────────────────────────────────────────

    async def prompt(self, request: s.PromptRequest) -> MethodResult:
        """`session/prompt`: answered when the turn has ended."""
        return MethodResult(await self._sessions.find(request.session_id).prompt(request.prompt))

    async def steer(self, request: s.PromptRequest) -> MethodResult:
        """`_session/steering`, which is not of the protocol: other agents have it, and their clients use it."""
        if await self._sessions.find(request.session_id).steer(request.prompt):
            return MethodResult({"outcome": "injected"})
        # A task without a prompt would have no answer; the client may send a prompt.
        steering = (request.field_meta or {}).get("steering")
        if isinstance(steering, dict) and cast("dict[str, Any]", steering).get("idleBehavior") == "promptRequired":
            return MethodResult({"outcome": "promptRequired", "reason": "noRunningTurn"})
        return MethodResult({"outcome": "failed"})

    async def cancel(self, request: s.CancelNotification) -> MethodResult:
        """`session/cancel`: stop the prompt that is being answered."""
        self._sessions.find(request.session_id).cancel()
        return MethodResult()

    async def set_mode(self, request: s.SetSessionModeRequest) -> MethodResult:
        """`session/set_mode`: choose the mode of a session."""
        await choose_mode(self._sessions.find(request.session_id).session, request.mode_id)
        return MethodResult()

    async def set_option(self, request: s.SetSessionConfigOptionSelectRequest) -> MethodResult:
        """`session/set_config_option`: the mode or the model."""
        session = self._sessions.find(request.session_id)
        match request.config_id:
            case "mode":
                await choose_mode(session.session, request.value)
            case "model":
                await choose_model(session.session, request.value)
            case other:
                raise InvalidParamsError(f"configId must be mode or model, not {other[:64]!r}")
        return MethodResult({"configOptions": session.options()})

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _open(
        self, request: OpenSessionRequest, opening: Callable[[SessionRequest], Awaitable[OpenedSession]]
    ) -> AcpSession:
        editor = self._editor or EditorCapabilities()
        buffers = EditorBuffers(self.peer, can_write=editor.writes) if editor.reads else None
        servers = [client_server(server) for server in request.mcp_servers or ()]
        running = {session.id for session in self._factory.host.sessions}
        opened = await opening(SessionRequest(request.cwd, request.additional_directories or (), servers, buffers))
        if buffers is not None:
            buffers.session_id = opened.session.id
        return self._sessions.get(opened.session.id) or self._sessions.add(
            AcpSession(
                opened.session,
                self.peer,
                self._sink,
                editor=editor,
                models=self._factory.models,
                remarks=opened.remarks,
                ran_before=opened.session.id in running,
            )
        )


@asynccontextmanager
async def _closed_if_unanswered(sessions: OpenSessions[AcpSession], session: AcpSession) -> AsyncGenerator[None]:
    """Where this is cancelled the client never learns of the session that was opened for it."""
    session.openings += 1
    try:
        yield
    except BaseException:
        if session.openings == 1 and not session.is_followed and session.session.id in sessions:
            await sessions.release(session, closes=not session.ran_before)
        raise
    finally:
        session.openings -= 1


async def _cancel_request(agent: AcpAgent, request: s.CancelRequestNotification) -> MethodResult:
    """`$/cancel_request`: also for requests without a cancel method of their own."""
    pending = None if request.request_id is None else agent.peer.find_request(request.request_id)
    if pending is None or pending.id is None:
        # Answered in the meantime, or never received.
        return MethodResult()
    if pending.method == AGENT_METHODS["session_prompt"]:
        # It ends as a prompt does: with all that it caused, and an answer.
        return await agent.cancel(_read(s.CancelNotification, pending.params))
    agent.peer.cancel(pending.id)
    return MethodResult()


_METHODS: dict[str, SurfaceMethod] = {
    AGENT_METHODS["authenticate"]: SurfaceMethod(s.AuthenticateRequest, AcpAgent.authenticate),
    AGENT_METHODS["session_new"]: SurfaceMethod(s.NewSessionRequest, AcpAgent.new),
    AGENT_METHODS["session_load"]: SurfaceMethod(s.LoadSessionRequest, AcpAgent.load),
    AGENT_METHODS["session_resume"]: SurfaceMethod(s.ResumeSessionRequest, AcpAgent.resume),
    AGENT_METHODS["session_fork"]: SurfaceMethod(s.ForkSessionRequest, AcpAgent.fork),
    AGENT_METHODS["session_list"]: SurfaceMethod(s.ListSessionsRequest, AcpAgent.list),
    AGENT_METHODS["session_close"]: SurfaceMethod(s.CloseSessionRequest, AcpAgent.close_session),
    AGENT_METHODS["session_delete"]: SurfaceMethod(s.DeleteSessionRequest, AcpAgent.delete),
    AGENT_METHODS["session_prompt"]: SurfaceMethod(s.PromptRequest, AcpAgent.prompt),
    STEERING_METHOD: SurfaceMethod(s.PromptRequest, AcpAgent.steer),
    AGENT_METHODS["session_cancel"]: SurfaceMethod(s.CancelNotification, AcpAgent.cancel),
    CANCEL_REQUEST: SurfaceMethod(s.CancelRequestNotification, _cancel_request),
    AGENT_METHODS["session_set_mode"]: SurfaceMethod(s.SetSessionModeRequest, AcpAgent.set_mode),
    AGENT_METHODS["session_set_config_option"]: SurfaceMethod(
        s.SetSessionConfigOptionSelectRequest, AcpAgent.set_option
    ),
}
"""All that are answered, but for `initialize`."""


def _read(kind: type[M], params: dict[str, Any]) -> M:
    try:
        return kind.model_validate(params)
    except ValidationError as error:
        problem = model_problems(error)[0]
        place = problem_place(problem["loc"]) or "params"
        raise InvalidParamsError(f"{place[:200]}: {explain_problem(problem)[:200]}") from None


def _find_skipped_lists(request: BaseModel, params: dict[str, Any]) -> list[str]:
    """The lists from which the SDK has left out entries that it cannot read, as the protocol demands."""
    if not isinstance(request, OpenSessionRequest):
        return []
    lists = {field: params.get(name) for field, name in _LENIENT_LISTS.items()}
    return [
        _LENIENT_LISTS[field]
        for field, value in lists.items()
        if isinstance(value, list) and len(cast("list[Any]", value)) > len(getattr(request, field) or ())
    ]


def list_page(home: Path, cwd: str | None, cursor: str | None) -> dict[str, Any]:
    """Stored sessions in which something was said, in one directory or in all. Reads files: call it in a thread."""
    if cwd is not None and "\0" in cwd:
        raise InvalidParamsError(f"cwd must be a path, not {cwd[:200]!r}")

    def accept(stored: SessionSummary) -> bool:
        return stored.cwd is not None and stored.preview is not None and is_in_folders(stored.cwd, cwd)

    page = session_page(home, list_sessions(home), cursor, PAGE, accept)
    sessions = [
        {
            "sessionId": stored.entry.id,
            "cwd": stored.cwd,
            "title": one_line(stored.title or stored.preview or ""),
            "updatedAt": Timestamps(SystemClock()).at(stored.entry.updated),
        }
        for stored in page.sessions
    ]
    return {"sessions": sessions, **({"nextCursor": page.next_cursor} if page.next_cursor is not None else {})}


async def serve_acp(factory: Callable[[], SessionFactory]) -> int:
    """Serve until the input ends, the client is gone, or a SIGTERM or SIGINT comes. The exit code, which is 0."""
    return await run_on_standard_streams(lambda source, target, stop: serve_acp_client(factory(), source, target, stop))


async def serve_acp_client(factory: SessionFactory, source: int, target: int, stop: asyncio.Event) -> None:
    """Serve one client on a pair of descriptors, which stay open, until its input ends or `stop` is set.

    When the input ends every prompt is cancelled: the client could not do that any more.
    """
    await serve_client(factory.host, lambda sink: AcpAgent(factory, sink), source, target, stop, PATIENCE_S)
