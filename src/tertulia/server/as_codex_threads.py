"""The threads that a Codex client has opened: each a Session of one Host, under the settings of its directory."""

from __future__ import annotations

import asyncio
from typing import Any

from tertulia.errors import InvalidRequestError, NotFoundError, TertuliaError
from tertulia.server import as_codex_params as p
from tertulia.server.as_codex_shelf import NOT_LOADED, Shelf
from tertulia.server.as_codex_thread import Thread, change
from tertulia.server.feed import Sink
from tertulia.server.house import House, Opened, Wish
from tertulia.server.peer import Answered, Peer
from tertulia.session.session import Session

_GRACE_S = 1.0


class Threads:
    """Begun, brought back, forked, looked at, put away."""

    def __init__(self, house: House, peer: Peer, sink: Sink) -> None:
        self._house = house
        self._peer = peer
        self._sink = sink
        self._shelf = Shelf(house.environment.home)
        self._open: dict[str, Thread] = {}
        self.muted: frozenset[str] = frozenset()
        """What the client does not want to hear."""

    def find(self, thread_id: str) -> Thread:
        """One that is open. NotFound."""
        thread = self._open.get(thread_id)
        if thread is None:
            raise NotFoundError(f"thread not found: {thread_id[:64]!r}; start or resume it first")
        return thread

    async def close(self) -> None:
        """Close all of them."""
        async with asyncio.TaskGroup() as group:
            for thread in list(self._open.values()):
                group.create_task(self._let_go(thread))

    async def start(self, asked: p.StartThread) -> Answered:
        """`thread/start`."""
        opened = await self._house.begin(Wish(asked.cwd or self._own_cwd()))
        return await self._changed(opened, asked, origin=None, turns=False, new=True)

    async def resume(self, asked: p.ResumeThread) -> Answered:
        """`thread/resume`: one of the past, or one that runs here already."""
        await self._refuse_archived(asked.thread_id)
        opened = await self._house.bring_back(asked.thread_id, Wish(await self._cwd(asked)))
        return await self._changed(opened, asked, origin=None, turns=not asked.exclude_turns, new=False)

    async def fork(self, asked: p.ForkThread) -> Answered:
        """`thread/fork`: a new one that begins with all of another, or with its turns up to one."""
        at = None if asked.last_turn_id is None else await self._round(asked.thread_id, asked.last_turn_id)
        opened = await self._house.fork(asked.thread_id, Wish(await self._cwd(asked)), at)
        return await self._changed(opened, asked, origin=asked.thread_id, turns=not asked.exclude_turns, new=True)

    async def list(self, asked: p.ListThreads) -> Answered:
        """`thread/list`."""
        states = {id: thread.state() for id, thread in self._open.items()}
        return Answered(await asyncio.to_thread(self._shelf.listed, asked, states))

    async def read(self, asked: p.ReadThread) -> Answered:
        """`thread/read`: also one that does not run, which stays so."""
        thread = self._open.get(asked.thread_id)
        if thread is not None:
            return Answered({"thread": thread.shown(turns=asked.include_turns)})
        shown = await asyncio.to_thread(self._shelf.read, asked.thread_id, turns=asked.include_turns)
        return Answered({"thread": shown})

    async def loaded(self, asked: p.Nothing) -> Answered:
        """`thread/loaded/list`."""
        return Answered({"data": list(self._open), "nextCursor": None})

    async def archive(self, asked: p.OfThread) -> Answered:
        """`thread/archive`: it is closed, and lists leave it out. Nothing of it is lost."""
        await asyncio.to_thread(self._shelf.archive, asked.thread_id, away=True)
        thread = self._open.get(asked.thread_id)
        if thread is not None:
            await self._let_go(thread)
            self._tell("thread/status/changed", {"threadId": asked.thread_id, "status": NOT_LOADED})
        return Answered({}, lambda: self._tell("thread/archived", {"threadId": asked.thread_id}))

    async def unarchive(self, asked: p.OfThread) -> Answered:
        """`thread/unarchive`."""
        await asyncio.to_thread(self._shelf.archive, asked.thread_id, away=False)
        shown = await asyncio.to_thread(self._shelf.read, asked.thread_id, turns=False)
        return Answered({"thread": shown}, lambda: self._tell("thread/unarchived", {"threadId": asked.thread_id}))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _changed(
        self, opened: Opened, asked: p.Wanted, *, origin: str | None, turns: bool, new: bool
    ) -> Answered:
        try:
            await change(opened.session, asked.changes())
        except TertuliaError:
            # A thread that the client was never told of.
            if opened.session.id not in self._open:
                await self._house.host.close_session(opened.session)
            raise
        thread = self._open.get(opened.session.id) or await self._add(opened.session, origin)
        remarks = list(opened.remarks)

        def begin() -> None:
            thread.begin(new=new)
            for remark in remarks:
                self._tell("warning", {"threadId": thread.session.id, "message": remark})

        return Answered(thread.opened(turns=turns), begin)

    async def _add(self, session: Session, origin: str | None) -> Thread:
        now = session.parts.clock.now()
        created = await asyncio.to_thread(self._shelf.created, session.id, now)
        past = await asyncio.to_thread(self._shelf.past, session.id)
        if session.id not in self._open:
            self._open[session.id] = Thread(
                session, self._peer, self._sink, muted=self.muted, past=past, created=created, origin=origin
            )
        return self._open[session.id]

    async def _refuse_archived(self, thread_id: str) -> None:
        if thread_id in await asyncio.to_thread(self._shelf.archived):
            raise InvalidRequestError(f"thread {thread_id} is archived; `thread/unarchive` takes it out again")

    async def _cwd(self, asked: p.ResumeThread) -> str:
        """Where a thread is to go on: where the client says, else where it was."""
        if asked.cwd is not None:
            return asked.cwd
        running = self._open.get(asked.thread_id)
        if running is not None:
            return running.session.parts.conversations.root.terms.cwd
        return await asyncio.to_thread(self._shelf.cwd, asked.thread_id) or self._own_cwd()

    async def _round(self, thread_id: str, turn_id: str) -> int:
        running = self._open.get(thread_id)
        if running is not None:
            return running.round_of(turn_id)
        return await asyncio.to_thread(self._shelf.round_of, thread_id, turn_id)

    def _own_cwd(self) -> str:
        return self._house.host.settings.cwd or "/"

    async def _let_go(self, thread: Thread) -> None:
        # Not for the next turn to find while it closes.
        self._open.pop(thread.session.id, None)
        await self._house.host.close_session(thread.session)
        await thread.close(_GRACE_S)

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        if method not in self.muted:
            self._peer.notify(method, params)
