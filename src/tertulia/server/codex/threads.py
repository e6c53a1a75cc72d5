"""The threads of a Codex client: those that it has opened, each a session of its own, and those that are stored.

Codex keeps archived threads apart. Here they stay where they are, and one file names them: `archived-threads`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tertulia.errors import InvalidRequestError, TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.protocol.ids import SessionId
from tertulia.protocol.items import Item
from tertulia.rollout.sqlite.session_files import create_private
from tertulia.rollout.sqlite.session_index import find_session, list_sessions
from tertulia.rollout.sqlite.summaries import SessionSummary, summary
from tertulia.server.client_surface import OpenSessions
from tertulia.server.codex import params as p
from tertulia.server.codex.items import ThreadSummary, round_number, thread_object, turn_objects
from tertulia.server.codex.params import ListThreads
from tertulia.server.codex.thread import CodexThread, change_terms
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult
from tertulia.server.session_factory import OpenedSession, SessionFactory, SessionRequest, is_in_folders
from tertulia.session.records.session_pages import session_page
from tertulia.session.resume.deletion import delete_session
from tertulia.session.resume.fork import read_recorded_state
from tertulia.session.resume.past_turns import PastTurns, read_past_turns
from tertulia.session.session import Session

PAGE = 25
MAX_PAGE = 100
ARCHIVED_FILE = "archived-threads"
NOT_LOADED = {"type": "notLoaded"}


class StoredThreads:
    """The threads below one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def listed(self, request: ListThreads, states: Mapping[SessionId, dict[str, Any]]) -> dict[str, Any]:
        """One page, the newest first: threads in which something was said. `states`: of those that run."""
        size = min(max(request.limit or PAGE, 1), MAX_PAGE)
        archived = self.archived()
        entries = [entry for entry in list_sessions(self._home) if (entry.id in archived) is bool(request.archived)]

        def accept(stored: SessionSummary) -> bool:
            return stored.preview is not None and is_in_folders(stored.cwd, request.cwd)

        page = session_page(self._home, entries, request.cursor, size, accept)
        threads = [
            thread_object(self._about(one, states.get(SessionId(one.entry.id), NOT_LOADED))) for one in page.sessions
        ]
        return {"data": threads, "nextCursor": page.next_cursor}

    def read(self, id: str, *, turns: bool) -> dict[str, Any]:
        """One that does not run. NotFound, or StorageError."""
        return thread_object(self._about(summary(self._home, id), NOT_LOADED), self.turns(id) if turns else ())

    def turns(self, id: str) -> list[dict[str, Any]]:
        """The turns of one that does not run. NotFound, or StorageError."""
        cwd = summary(self._home, id).cwd or "/"
        endings = self.past(id).endings
        objects = turn_objects(self.items(id), cwd, {name: name for name in endings})
        return [{**turn, "status": endings.get(turn["id"], turn["status"])} for turn in objects]

    def path(self, id: str) -> str:
        """The file that a thread is stored in."""
        return str(self._home / "sessions" / f"{id}.db")

    def _about(self, stored: SessionSummary, status: dict[str, Any]) -> ThreadSummary:
        entry = stored.entry
        return ThreadSummary(
            id=entry.id,
            model=entry.model or "",
            cwd=stored.cwd or "/",
            created=entry.created,
            updated=entry.updated,
            preview=stored.preview or "",
            name=stored.title,
            status=status,
            path=self.path(entry.id),
        )

    def past(self, id: str) -> PastTurns:
        """How the turns of one ended and what they cost; nothing of one that is not stored."""
        stored = self._home / "sessions" / f"{id}.db"
        return read_past_turns(self._home, id) if stored.exists() else PastTurns()

    def items(self, id: str) -> list[Item]:
        """All that was said in one. NotFound, or StorageError."""
        past = read_recorded_state(self._home, id)
        _, root = past.identity()
        return [
            item
            for conversation in past.conversations.values()
            if conversation.id == root
            for item in conversation.items
        ]

    def round_of(self, id: str, turn_id: str) -> int:
        """Which round of its history a turn is. NotFound, or StorageError."""
        return round_number(self.items(id), turn_id, {name: name for name in self.past(id).endings})

    def cwd(self, id: str) -> str | None:
        """Where one worked. NotFound, or StorageError."""
        return summary(self._home, id).cwd

    def created(self, id: str, otherwise: float) -> float:
        """When a stored thread was created."""
        stored = self._home / "sessions" / f"{id}.db"
        return find_session(self._home, id).created if stored.exists() else otherwise

    # ── put away ─────────────────────────────────────────────────────────────────────────────────────────────

    def archived(self) -> set[str]:
        """The ids of the threads that are archived."""
        try:
            return set((self._home / ARCHIVED_FILE).read_text(encoding="ascii").split())
        except FileNotFoundError:
            return set()

    def archive(self, id: str, *, away: bool) -> None:
        """Archive a thread, or take it out again. NotFound where there is none."""
        find_session(self._home, id)
        # Sessions that were removed since are forgotten here too.
        there = {entry.id for entry in list_sessions(self._home)}
        named = (self.archived() & there) | {id} if away else (self.archived() & there) - {id}
        draft = self._home / f"{ARCHIVED_FILE}.{os.getpid()}"
        draft.unlink(missing_ok=True)
        create_private(draft, "".join(f"{name}\n" for name in sorted(named)).encode())
        draft.replace(self._home / ARCHIVED_FILE)


class CodexThreads:
    """Starts, resumes, forks, reads and archives threads, and has those that are open."""

    def __init__(self, factory: SessionFactory, peer: Peer, sink: Sink) -> None:
        self._factory = factory
        self._peer = peer
        self._sink = sink
        self._stored = StoredThreads(factory.environment.home)
        self._open = OpenSessions[CodexThread](factory.host, "thread not found: {}; start or resume it first")
        self.find = self._open.find
        self.opened = self._open
        self.stored = self._stored
        self.close = self._open.close
        self.muted: frozenset[str] = frozenset()
        """The notifications that the client does not want."""

    async def start(self, request: p.StartThread) -> MethodResult:
        """`thread/start`: open a new thread."""
        opened = await self._factory.start(SessionRequest(request.cwd or self._own_cwd()))
        return await self._changed(opened, request, origin=None, turns=False, new=True)

    async def resume(self, request: p.ResumeThread) -> MethodResult:
        """`thread/resume`: a stored thread, or one that runs here already."""
        await self._refuse_archived(request.thread_id)
        opened = await self._factory.resume(request.thread_id, SessionRequest(await self._cwd(request)))
        return await self._changed(opened, request, origin=None, turns=not request.exclude_turns, new=False)

    async def fork(self, request: p.ForkThread) -> MethodResult:
        """`thread/fork`: a new one that begins with all of another, or with its turns up to one."""
        at = None if request.last_turn_id is None else await self._round(request.thread_id, request.last_turn_id)
        opened = await self._factory.fork(request.thread_id, SessionRequest(await self._cwd(request)), at)
        return await self._changed(opened, request, origin=request.thread_id, turns=not request.exclude_turns, new=True)

    async def list(self, request: p.ListThreads) -> MethodResult:
        """`thread/list`: one page of the stored threads."""
        states = {thread.session.id: thread.state() for thread in self._open}
        return MethodResult(await asyncio.to_thread(self._stored.listed, request, states))

    async def read(self, request: p.ReadThread) -> MethodResult:
        """`thread/read`: also a thread that does not run; it is not started."""
        thread = self._open.get(request.thread_id)
        if thread is not None:
            return MethodResult({"thread": thread.shown(turns=request.include_turns)})
        shown = await asyncio.to_thread(self._stored.read, request.thread_id, turns=request.include_turns)
        return MethodResult({"thread": shown})

    async def loaded(self, request: p.CodexNoParams) -> MethodResult:
        """`thread/loaded/list`: the threads that are open here."""
        return MethodResult({"data": [thread.session.id for thread in self._open], "nextCursor": None})

    async def archive(self, request: p.ThreadParams) -> MethodResult:
        """`thread/archive`: it is closed, and lists leave it out. Nothing of it is lost."""
        await asyncio.to_thread(self._stored.archive, request.thread_id, away=True)
        thread = self._open.get(request.thread_id)
        if thread is not None:
            await self._open.release(thread)
            self.tell("thread/status/changed", {"threadId": request.thread_id, "status": NOT_LOADED})
        return MethodResult({}, lambda: self.tell("thread/archived", {"threadId": request.thread_id}))

    async def unarchive(self, request: p.ThreadParams) -> MethodResult:
        """`thread/unarchive`: lists show the thread again."""
        await asyncio.to_thread(self._stored.archive, request.thread_id, away=False)
        shown = await asyncio.to_thread(self._stored.read, request.thread_id, turns=False)
        return MethodResult({"thread": shown}, lambda: self.tell("thread/unarchived", {"threadId": request.thread_id}))

    async def name(self, request: p.NameThread) -> MethodResult:
        """`thread/name/set`: give a thread that is open a name."""
        thread = self._open.find(request.thread_id)
        await thread.session.root.set_context(title=request.name)
        named = {"threadId": request.thread_id, "threadName": thread.session.root.details.title}
        return MethodResult({}, lambda: self.tell("thread/name/updated", named))

    async def delete(self, request: p.ThreadParams) -> MethodResult:
        """`thread/delete`: nothing of it is left. NotFound where there is none, Busy where another process has it."""
        host, thread = self._factory.host, self._open.get(request.thread_id)
        if thread is not None:
            await self._open.release(thread)
        await delete_session(self._factory.environment, host.settings, SystemClock(), request.thread_id)
        return MethodResult({}, lambda: self.tell("thread/deleted", {"threadId": request.thread_id}))

    async def unsubscribe(self, request: p.ThreadParams) -> MethodResult:
        """`thread/unsubscribe`: close a thread here; it stays stored. What runs in it is stopped."""
        thread = self._open.get(request.thread_id)
        if thread is None:
            return MethodResult({"status": "notLoaded"})
        await self._open.release(thread)
        return MethodResult({"status": "unsubscribed"}, lambda: self._closed(request.thread_id))

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
                self.tell("warning", {"threadId": thread.session.id, "message": remark})

        return MethodResult(thread.opened(turns=turns), begin)

    async def _add(self, session: Session, origin: str | None) -> CodexThread:
        now = SystemClock().now()
        created = await asyncio.to_thread(self._stored.created, session.id, now)
        past = await asyncio.to_thread(self._stored.past, session.id)
        return self._open.get(session.id) or self._open.add(
            CodexThread(
                session,
                self._peer,
                self._sink,
                muted=self.muted,
                past=past,
                created=created,
                origin=origin,
                path=self._stored.path(session.id),
            )
        )

    def _closed(self, thread_id: str) -> None:
        self.tell("thread/status/changed", {"threadId": thread_id, "status": NOT_LOADED})
        self.tell("thread/closed", {"threadId": thread_id})

    async def _refuse_archived(self, thread_id: str) -> None:
        if thread_id in await asyncio.to_thread(self._stored.archived):
            raise InvalidRequestError(f"thread {thread_id} is archived; `thread/unarchive` takes it out again")

    async def _cwd(self, request: p.ResumeThread) -> str:
        """The directory in which a thread is resumed: the client's, else its own."""
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

    def tell(self, method: str, params: dict[str, Any]) -> None:
        if method not in self.muted:
            self._peer.notify(method, params)
