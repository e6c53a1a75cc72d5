"""The sessions of other processes as cards: `OtherSessions` of the host's feed. Nothing is watched without a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tertulia.errors import TertuliaError
from tertulia.scheduler.nursery import Nursery
from tertulia.server.sockets.folder_watch import FolderWatch
from tertulia.server.sockets.session_sockets import FOLDER
from tertulia.server.sockets.socket_client import SocketClient
from tertulia.server.sockets.socket_folder import find_reachable, program_of
from tertulia.session.host import Host
from tertulia.session.host_feed.cards import HostAnswer, HostEvent, ProcessInfo, SessionCard

MAX_SESSIONS = 1_000
_ANSWER_S = 2.0


class _Notification(msgspec.Struct):
    params: HostEvent


class OtherProcesses:
    """Follows the sessions that other processes of this user let us reach, one connection each."""

    def __init__(self, home: Path, host: Host, nursery: Nursery) -> None:
        """`host`: whose sessions are not others."""
        self._home = home
        self._host = host
        self._nursery = nursery
        self._clients: dict[str, SocketClient | None] = {}
        """By session; None while it is being connected to."""
        self._cards: dict[str, SessionCard] = {}
        self._starting: set[asyncio.Future[None]] = set()
        self._tell: Callable[[HostEvent], None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def cards(self) -> list[SessionCard]:
        """Those that run now. One that does not answer in time is left out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                await self._look()
                while starting := list(self._starting):
                    await asyncio.wait(starting)
        return list(self._cards.values())

    def follow(self, tell: Callable[[HostEvent], None]) -> Callable[[], None]:
        """See `OtherSessions`: call `tell` for each that begins, changes or ends; returns what ends that."""
        self._tell = tell
        self._watching = self._nursery.start(self._watch(), "sessions of other processes")
        return self._leave

    def _leave(self) -> None:
        self._tell = None
        if self._watching is not None:
            self._watching.cancel()
        clients, self._clients, self._cards = self._clients, {}, {}
        for client in clients.values():
            if client is not None:
                self._nursery.start(client.close(), "leave a session")

    async def _watch(self) -> None:
        folder = self._home / FOLDER
        # As the first process with a session makes it: a folder that is not there cannot be watched.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FolderWatch(folder) as watch:
            while True:
                await self._look()
                await watch.wait()

    async def _look(self) -> None:
        """Connect to those that are new."""
        own = {session.id for session in self._host.sessions}
        for found in await find_reachable(self._home):
            new = found.session_id not in self._clients and found.session_id not in own
            if new and len(self._clients) < MAX_SESSIONS:
                self._clients[found.session_id] = None
                followed = asyncio.get_running_loop().create_future()
                self._starting.add(followed)
                followed.add_done_callback(self._starting.discard)
                self._nursery.start(self._follow_one(found.session_id, followed), "follow a session elsewhere")

    async def _follow_one(self, session_id: str, followed: asyncio.Future[None]) -> None:
        """`followed` is done when its card is there, or will not come."""

        async def take(method: str, line: bytes) -> None:
            if method == "host_event":
                self._changed(client, msgspec.json.decode(line, type=_Notification).params.session)

        clients = self._clients
        try:
            client = await SocketClient.open(self._home, session_id, take, observe=True)
        except TertuliaError:
            clients.pop(session_id, None)
            followed.cancel()
            return
        clients[session_id] = client
        try:
            # Where all have left meanwhile, those who came since have a connection of their own.
            if clients is self._clients:
                answer = msgspec.json.decode(await client.request("host/subscribe", {}), type=HostAnswer)
                # What was told meanwhile is newer than the answer.
                for card in answer.sessions if session_id not in self._cards else ():
                    self._changed(client, card)
                followed.cancel()
                await client.ended.wait()
        except TertuliaError:
            pass
        finally:
            followed.cancel()
            await client.close()
            if clients is self._clients:
                self._ended(session_id)

    def _changed(self, client: SocketClient, card: SessionCard) -> None:
        session_id = client.session_id
        if self._tell is None or card.session_id != session_id or self._clients.get(session_id) is not client:
            return
        process = ProcessInfo(client.pid, program_of(client.pid))
        is_new = session_id not in self._cards
        card = self._cards[session_id] = replace(card, where="elsewhere", process=process)
        self._tell(HostEvent("session_opened" if is_new else "session_changed", card))

    def _ended(self, session_id: str) -> None:
        self._clients.pop(session_id, None)
        card = self._cards.pop(session_id, None)
        if card is not None and self._tell is not None:
            self._tell(HostEvent("session_closed", replace(card, state="idle", running=0, questions=0)))
