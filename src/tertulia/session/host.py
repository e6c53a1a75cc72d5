"""The sessions of this process, whichever client started them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from tertulia.errors import ClosedError, InvalidRequestError, LimitError, NotFoundError
from tertulia.events.clock import SystemClock
from tertulia.events.metrics import MetricsTotals
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.sandbox.limits.open_files import check_free_files
from tertulia.scheduler.host_slots import HostSlots
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.reply import Reply, TypedReply
from tertulia.session.approvals.callback import ApprovalHandler
from tertulia.session.conversations import Tombstones
from tertulia.session.inputs import MessageContent, MessageOptions
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.session.shutdown import SERVERS_GRACE_S

T = TypeVar("T")
if TYPE_CHECKING:
    from tertulia.session.host_feed.feed import HostFeed
    from tertulia.session.mcp.host import McpHost
    from tertulia.session.records.answers import RecordDeleteAnswer, RecordForkAnswer
    from tertulia.session.records.inputs import DeleteRecord, ForkRecordParams
    from tertulia.session.records.stored_records import StoredRecords

MAX_SESSIONS = 10_000


class Host:
    """Holds sessions by id: one for a command line, many for a server."""

    def __init__(
        self, settings: Settings, on_entered: Callable[[Session, Host], Awaitable[None]] | None = None
    ) -> None:
        """`on_entered`: called with each session that has begun here, before its client gets it."""
        self._on_entered = on_entered
        self.settings = settings
        """The settings of a session that names none, and the most that one can get."""
        self._sessions: dict[str, Session] = {}
        self._coming: dict[str, asyncio.Event] = {}
        """Sessions that are being resumed; each event is set when that is over."""
        self._gone = Tombstones()
        self._nursery = Nursery()
        self._swept: asyncio.Task[None] | None = None
        self._mcp_host: McpHost | None = None
        self.services = HostServices(self, self._nursery)
        """What surfaces use of a host besides its sessions."""
        self._host_slots = None if settings.max_running_tasks is None else HostSlots(settings.max_running_tasks)

    def __len__(self) -> int:
        return len(self._sessions)

    async def start(self, settings: Settings | None = None) -> Session:
        """Start a session here.

        Args:
            settings: What it is started with; None: those of the host.

        Returns:
            The session, running.

        Raises:
            LimitError: The process holds as many sessions as it may.
        """
        return await self._enter(
            Session(settings or self.settings, swept=True, mcp_host=self._below(), host_slots=self._host_slots)
        )

    async def _enter(self, session: Session) -> Session:
        if len(self._sessions) >= MAX_SESSIONS:
            raise LimitError(f"this process holds {MAX_SESSIONS:,} sessions already; close some")
        check_free_files()
        await self._sweep()
        await session.__aenter__()
        self._sessions[session.id] = session
        if self._on_entered is not None:
            await self._on_entered(session, self)
        self.services.begin(session)
        return session

    async def resume(
        self, session_id: str, settings: Settings | None = None, *, waits: bool = True, continue_tasks: bool = False
    ) -> Session:
        """A session of the past, running again; the same one if it runs here already.

        Args:
            session_id: The id of the stored session.
            settings: What it may have at most; None: those of the host.
            waits: Whether to wait for MCP servers that are required; without it `session.mcp.ready` does, and
                `session.activity.go_on` begins what goes on.
            continue_tasks: Whether tasks that a crash cut go on, as far as their conversations ask for that.

        Returns:
            The session, running.

        Raises:
            NotFoundError: There is no such session.
            LimitError: The process holds as many sessions as it may.
        """
        if not is_session_id(session_id):
            raise NotFoundError(f"session not found: {session_id[:64]!r}")
        while (coming := self._coming.get(session_id)) is not None:
            # Two clients that resume at once mean one session, whose file can be opened only once.
            await coming.wait()
        running = self._sessions.get(session_id)
        if running is not None and not running.closed:
            return running
        over = self._coming[session_id] = asyncio.Event()
        try:
            session = await self._enter(
                Session(
                    settings or self.settings,
                    resumed=session_id,
                    swept=True,
                    waits=waits,
                    continue_tasks=continue_tasks,
                    mcp_host=self._below(),
                    host_slots=self._host_slots,
                )
            )
            if continue_tasks and waits:
                # Last: a client that follows the session now misses nothing of what goes on.
                session.activity.go_on()
            return session
        finally:
            del self._coming[session_id]
            over.set()

    def _below(self) -> McpHost:
        """The pool of MCP servers, which belongs to the host: a session only leases them."""
        if self._mcp_host is None:
            # Imported here: a program that only starts one session may never need MCP.
            from tertulia.session.mcp.host import McpHost

            self._mcp_host = McpHost(self.settings, current_environment(), SystemClock(), self._nursery)
        return self._mcp_host

    async def _sweep(self) -> None:
        """Before the first session begins, once; callers that come meanwhile wait for it too."""
        if self._swept is None:
            from tertulia.session.resume.retention_sweep import sweep_before_serving

            sweep = sweep_before_serving(current_environment().home, self.settings, SystemClock())
            self._swept = self._nursery.start(sweep, "sweep")
        await asyncio.shield(self._swept)

    def __getitem__(self, session_id: str) -> Session:
        """The running session of that id: `host[session_id]`.

        Args:
            session_id: Its id.

        Returns:
            The session.

        Raises:
            NotFoundError: None of that id ran here.
            ClosedError: It is closed.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            return session
        if session_id in self._gone:
            raise ClosedError(f"session {session_id} is closed")
        raise NotFoundError(f"session not found: {session_id[:64]!r}")

    @property
    def sessions(self) -> list[Session]:
        """All sessions that run here; the one that was started first comes first."""
        return list(self._sessions.values())

    async def close_session(self, session: Session, timeout: float | None = None) -> bool:
        """Close one. A caller that gives up does not stop it; it stays here until it is closed.

        Args:
            session: One that runs here.
            timeout: How many seconds its tasks have to end by themselves; None: as its settings say.

        Returns:
            Whether something had to be abandoned.
        """
        answer = await session.close(timeout)
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self._gone.add(session.id)
            self.services.end(session)
        return answer.forced

    async def close(self, timeout: float | None = None) -> None:
        """Close all of them at the same time.

        Args:
            timeout: How many seconds their tasks have to end by themselves; None: as the settings of each say.
        """
        async with asyncio.TaskGroup() as group:
            for session in self.sessions:
                group.create_task(self.close_session(session, timeout))
        if self._mcp_host is not None:
            await self._mcp_host.close(SERVERS_GRACE_S)


class HostServices:
    """What surfaces use of a host besides its sessions: records, the feed of what runs, forks and sums."""

    def __init__(self, host: Host, nursery: Nursery) -> None:
        self._host = host
        self._nursery = nursery
        self._records: StoredRecords | None = None
        self._feed: HostFeed | None = None
        self.started = 0
        """How many sessions were started or resumed here, closed ones included."""
        self._ended = MetricsTotals()

    def begin(self, session: Session) -> None:
        """A session runs from now on."""
        self.started += 1
        if self._feed is not None:
            self._feed.opened(session)

    def end(self, session: Session) -> None:
        """A session is closed; what it did goes on counting."""
        self._ended.merge(session.activity.totals)

    def _running(self) -> set[str]:
        return {session.id for session in self._host.sessions if not session.closed}

    @property
    def records(self) -> StoredRecords:
        """The stored sessions of this home, read-only."""
        if self._records is None:
            # Imported here: most programs never read records or fold boards.
            from tertulia.session.records.stored_records import StoredRecords

            self._records = StoredRecords(current_environment().home, SystemClock(), self._nursery, self._running)
        return self._records

    @property
    def feed(self) -> HostFeed:
        """The feed of the running sessions and their changes, for clients."""
        if self._feed is None:
            from tertulia.session.host_feed.feed import HostFeed

            self._feed = HostFeed(lambda: self._host.sessions, self.records.entry, self._nursery)
        return self._feed

    async def fork(self, params: ForkRecordParams) -> RecordForkAnswer:
        """A new stored session that begins as another was at a record: with its rights, and its storage policy.

        The new session is stored completely and does not run. NotFound where there is no such session, conversation or
        item; StorageError where it cannot be read, or the new one not be written: then nothing is left of it.
        """
        from tertulia.session.records import answers
        from tertulia.session.resume.fork import fork_session

        for session in self._host.sessions:
            if session.id == params.session_id and not session.closed:
                await session.activity.flush()
        fork = await fork_session(
            current_environment(),
            self._host.settings,
            SystemClock(),
            params.session_id,
            conversation_id=await self.records.fork_conversation(params),
            upto=params.n,
        )
        return answers.RecordForkAnswer(fork)

    async def delete(self, params: DeleteRecord) -> RecordDeleteAnswer:
        """Delete a stored session for good. NotFound where there is none, Busy where a process has it open."""
        from tertulia.session.records import answers
        from tertulia.session.resume.deletion import delete_session

        await delete_session(current_environment(), self._host.settings, SystemClock(), params.session_id)
        return answers.RecordDeleteAnswer(params.session_id)

    def totals(self) -> MetricsTotals:
        """What all sessions of this process did, those that are closed included: sums that never shrink."""
        totals = MetricsTotals()
        totals.merge(self._ended)
        for session in self._host.sessions:
            totals.merge(session.activity.totals)
        return totals


@overload
def run(
    content: MessageContent,
    settings: Settings | None = None,
    *,
    output_type: type[T],
    on_approval: ApprovalHandler | None = None,
    **options: Unpack[MessageOptions],
) -> TypedReply[T]: ...


@overload
def run(
    content: MessageContent,
    settings: Settings | None = None,
    *,
    output_type: None = None,
    on_approval: ApprovalHandler | None = None,
    **options: Unpack[MessageOptions],
) -> Reply: ...


def run(
    content: MessageContent,
    settings: Settings | None = None,
    *,
    output_type: type[Any] | None = None,
    on_approval: ApprovalHandler | None = None,
    **options: Unpack[MessageOptions],
) -> Reply:
    """Ask one thing in a session of its own and wait for the answer: `tertulia.run("What is here?").text`.

    Args:
        content: A text, or a list of items: texts and images.
        settings: What the session is started with; None is `Settings()`, which reads no file. With
            `Settings.load()` it is as on the command line.
        output_type: What the answer must be, as in `Conversation.message`.
        on_approval: Answers what has to be asked, as in `Session.start`; without it such a thing is refused.
        options: The rest; `help(tertulia.MessageOptions)` has each.

    Returns:
        The answer, when the session is closed again. A failed task is an answer: look at `Reply.status`.

    Raises:
        InvalidRequestError: An event loop runs in this thread; there a session is used with `async with`.
        NoModelError: The settings name no model, and none can be found.
        TertuliaError: As `Session.start` and `Conversation.message` do.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_run(content, settings, output_type, on_approval, options))
    raise InvalidRequestError(
        "tertulia.run() cannot be called while an event loop runs in this thread; use `async with "
        "tertulia.Session.start(settings) as session:` and `await session.root.message(...)`"
    )


async def _run(
    content: MessageContent,
    settings: Settings | None,
    output_type: type[Any] | None,
    on_approval: ApprovalHandler | None,
    options: MessageOptions,
) -> Reply:
    async with Session.start(settings, on_approval=on_approval) as session:
        return await session.root.message(content, output_type=output_type, **options)
