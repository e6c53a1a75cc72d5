"""The threads that a Codex client has opened: each a Session of one Host, under the settings of its directory."""

from __future__ import annotations

import asyncio
from typing import Any

from tertulia.errors import InvalidRequestError, NotFoundError, TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.server.codex import params as p
from tertulia.server.codex.stored_threads import NOT_LOADED, StoredThreads
from tertulia.server.codex.thread import CodexThread, change_terms
from tertulia.server.jsonrpc.event_sender import Sink
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult
from tertulia.server.session_factory import OpenedSession, SessionFactory, SessionRequest
from tertulia.session.session import Session

_GRACE_S = 1.0


class CodexThreads:
    """Begun, brought back, forked, looked at, put away."""

    def __init__(self, factory: SessionFactory, peer: Peer, sink: Sink) -> None:
        self._factory = factory
        self._peer = peer
        self._sink = sink
        self._stored = StoredThreads(factory.environment.home)
        self._open: dict[str, CodexThread] = {}
        self.muted: frozenset[str] = frozenset()
        """What the client does not want to hear."""

    def find(self, thread_id: str) -> CodexThread:
        """One that is open. NotFound."""
        thread = self._open.get(thread_id)
        if thread is None:
            raise NotFoundError(f"thread not found: {thread_id[:64]!r}; start or resume it first")
        return thread

    async def close(self) -> None:
        """Close all threads, side by side."""
        async with asyncio.TaskGroup() as group:
            for thread in list(self._open.values()):
                group.create_task(self._let_go(thread))

    async def start(self, request: p.StartThread) -> MethodResult:
        """`thread/start`: open a new thread."""
        opened = await self._factory.begin(SessionRequest(request.cwd or self._own_cwd()))
        return await self._changed(opened, request, origin=None, turns=False, new=True)

    async def resume(self, request: p.ResumeThread) -> MethodResult:
        """`thread/resume`: one of the past, or one that runs here already."""
        await self._refuse_archived(request.thread_id)
        opened = await self._factory.bring_back(request.thread_id, SessionRequest(await self._cwd(request)))
        return await self._changed(opened, request, origin=None, turns=not request.exclude_turns, new=False)

    async def fork(self, request: p.ForkThread) -> MethodResult:
        """`thread/fork`: a new one that begins with all of another, or with its turns up to one."""
        at = None if request.last_turn_id is None else await self._round(request.thread_id, request.last_turn_id)
        opened = await self._factory.fork(request.thread_id, SessionRequest(await self._cwd(request)), at)
        return await self._changed(opened, request, origin=request.thread_id, turns=not request.exclude_turns, new=True)

    async def list(self, request: p.ListThreads) -> MethodResult:
        """`thread/list`: one page of the stored threads."""
        states = {id: thread.state() for id, thread in self._open.items()}
        return MethodResult(await asyncio.to_thread(self._stored.listed, request, states))

    async def read(self, request: p.ReadThread) -> MethodResult:
        """`thread/read`: also one that does not run, which stays so."""
        thread = self._open.get(request.thread_id)
        if thread is not None:
            return MethodResult({"thread": thread.shown(turns=request.include_turns)})
        shown = await asyncio.to_thread(self._stored.read, request.thread_id, turns=request.include_turns)
        return MethodResult({"thread": shown})

    async def loaded(self, request: p.CodexNoParams) -> MethodResult:
        """`thread/loaded/list`: the threads that are open here."""
        return MethodResult({"data": list(self._open), "nextCursor": None})

    async def archive(self, request: p.ThreadParams) -> MethodResult:
        """`thread/archive`: it is closed, and lists leave it out. Nothing of it is lost."""
        await asyncio.to_thread(self._stored.archive, request.thread_id, away=True)
        thread = self._open.get(request.thread_id)
        if thread is not None:
            await self._let_go(thread)
            self._tell("thread/status/changed", {"threadId": request.thread_id, "status": NOT_LOADED})
        return MethodResult({}, lambda: self._tell("thread/archived", {"threadId": request.thread_id}))

    async def unarchive(self, request: p.ThreadParams) -> MethodResult:
        """`thread/unarchive`: lists show the thread again."""
        await asyncio.to_thread(self._stored.archive, request.thread_id, away=False)
        shown = await asyncio.to_thread(self._stored.read, request.thread_id, turns=False)
        return MethodResult({"thread": shown}, lambda: self._tell("thread/unarchived", {"threadId": request.thread_id}))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _changed(
        self, opened: OpenedSession, request: p.ThreadOptions, *, origin: str | None, turns: bool, new: bool
    ) -> MethodResult:
        try:
            await change_terms(opened.session, request.changes())
        except TertuliaError:
            # A thread that the client was never told of.
            if opened.session.id not in self._open:
                await self._factory.host.close_session(opened.session)
            raise
        thread = self._open.get(opened.session.id) or await self._add(opened.session, origin)
        remarks = list(opened.remarks)

        def begin() -> None:
            thread.begin(new=new)
            for remark in remarks:
                self._tell("warning", {"threadId": thread.session.id, "message": remark})

        return MethodResult(thread.opened(turns=turns), begin)

    async def _add(self, session: Session, origin: str | None) -> CodexThread:
        now = SystemClock().now()
        created = await asyncio.to_thread(self._stored.created, session.id, now)
        past = await asyncio.to_thread(self._stored.past, session.id)
        if session.id not in self._open:
            self._open[session.id] = CodexThread(
                session, self._peer, self._sink, muted=self.muted, past=past, created=created, origin=origin
            )
        return self._open[session.id]

    async def _refuse_archived(self, thread_id: str) -> None:
        if thread_id in await asyncio.to_thread(self._stored.archived):
            raise InvalidRequestError(f"thread {thread_id} is archived; `thread/unarchive` takes it out again")

    async def _cwd(self, request: p.ResumeThread) -> str:
        """Where a thread is to go on: where the client says, else where it was."""
        if request.cwd is not None:
            return request.cwd
        running = self._open.get(request.thread_id)
        if running is not None:
            return running.session.root.details.cwd
        return await asyncio.to_thread(self._stored.cwd, request.thread_id) or self._own_cwd()

    async def _round(self, thread_id: str, turn_id: str) -> int:
        running = self._open.get(thread_id)
        if running is not None:
            return running.round_of(turn_id)
        return await asyncio.to_thread(self._stored.round_of, thread_id, turn_id)

    def _own_cwd(self) -> str:
        return self._factory.host.settings.cwd or "/"

    async def _let_go(self, thread: CodexThread) -> None:
        # Not for the next turn to find while it closes.
        self._open.pop(thread.session.id, None)
        await self._factory.host.close_session(thread.session)
        await thread.close(_GRACE_S)

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        if method not in self.muted:
            self._peer.notify(method, params)
