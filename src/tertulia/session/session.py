"""The session: a container of conversations. It holds no instructions and decides nothing about what they see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from tertulia.errors import ClosedError
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.events.subscription import Subscription
from tertulia.protocol.ids import SessionId
from tertulia.protocol.inputs import ConversationParams, GetMetrics, OpenFromPython
from tertulia.protocol.subscriptions import Subscribe
from tertulia.scheduler.nursery import Nursery
from tertulia.session import describe
from tertulia.session.answers import CloseAnswer, SessionInfo
from tertulia.session.approvals.approvals import Approvals
from tertulia.session.approvals.callback import ApprovalHandler, check_handler
from tertulia.session.checkpoints.session_checkpoints import RecordedWorkspace
from tertulia.session.handle import Conversation
from tertulia.session.inputs import parse, parse_with_functions
from tertulia.session.mcp.session_handle import McpServers
from tertulia.session.messages.fan_out import MappedReply, map_inputs
from tertulia.session.metrics import MetricsAnswer, describe_metrics
from tertulia.session.parts import SessionParts, SessionStart
from tertulia.session.settings.conversation_fields import ConversationFields
from tertulia.session.settings.settings import Settings
from tertulia.session.shutdown import close_seconds, close_session, stop_accepting
from tertulia.session.submission import SessionActivity
from tertulia.session.transactions import open_conversation

if TYPE_CHECKING:
    from tertulia.scheduler.host_slots import HostSlots
    from tertulia.session.mcp.host import McpHost


class Session(RecordedWorkspace):
    """Use it as `async with Session.start(settings) as session:`; leaving the block closes it."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        journal: Journal | None = None,
        resumed: str | None = None,
        swept: bool = False,
        mcp_host: McpHost | None = None,
        host_slots: HostSlots | None = None,
        agent_servers: bool = True,
        on_approval: ApprovalHandler | None = None,
        waits: bool = True,
        continue_tasks: bool = False,
    ) -> None:
        """See `SessionStart`. `waits`: whether entering waits for MCP servers; without it `session.mcp.ready` does,
        when the caller follows the events."""
        self.settings = settings
        """What it was started with."""
        self._start = SessionStart(clock, journal, resumed, swept, mcp_host, host_slots, agent_servers, continue_tasks)
        self._waits = waits
        self._on_approval = on_approval
        self._parts: SessionParts | None = None
        self._closer = Nursery()
        self._closed: asyncio.Task[bool] | None = None

    @classmethod
    def start(
        cls,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        journal: Journal | None = None,
        on_approval: ApprovalHandler | None = None,
    ) -> Session:
        """A session to be entered. Nothing runs before that.

        Args:
            settings: What it is started with; None: the defaults.
            clock: Where it reads the time; for tests.
            journal: What keeps its events and items instead of the store of the settings; for tests.
            on_approval: Answers what has to be asked, as `Approvals.answer_with` does, from the first request on.

        Returns:
            An async context manager; leaving it closes the session.

        Raises:
            InvalidParamsError: `on_approval` cannot be called with a request.
        """
        return cls(settings or Settings(), clock=clock, journal=journal, on_approval=_checked(on_approval))

    @classmethod
    def resume(
        cls,
        id: str,
        settings: Settings | None = None,
        *,
        continue_tasks: bool = False,
        clock: Clock | None = None,
        on_approval: ApprovalHandler | None = None,
    ) -> Session:
        """A stored session, to be entered: all its conversations as they were, and nothing running.

        Entering raises NotFoundError, BusyError where another process has it open, or StorageError.

        Args:
            id: The id of the stored session.
            settings: Its stored rights are narrowed to these; the stored model is used unless one is named.
            continue_tasks: Whether tasks that a crash cut go on, of conversations with `on_restart="continue"`; without
                it they are closed. `session.activity.continued` has them.
            clock: Where it reads the time; for tests.
            on_approval: Answers what has to be asked, as in `start`.

        Returns:
            An async context manager; leaving it closes the session.

        Raises:
            InvalidParamsError: `on_approval` cannot be called with a request.
        """
        return cls(
            settings or Settings(),
            clock=clock,
            resumed=str(id),
            on_approval=_checked(on_approval),
            continue_tasks=continue_tasks,
        )

    async def __aenter__(self) -> Session:
        if self._closed is not None:
            raise ClosedError("the session was closed before it was entered")
        if self._parts is None:
            # What a session is made of is loaded when one starts, and not with the name of its class.
            from tertulia.session.assembly import start_session, wait_until_ready

            self._parts = await start_session(self.settings, self._start)
            try:
                if self._on_approval is not None:
                    self.approvals.answer_with(self._on_approval)
                await self._parts.bus.flush()
                # A program that starts a session itself may look at its tools at once; a host serves other clients too.
                await wait_until_ready(self._parts, waits=self._waits, shows_tools=self._start.mcp_host is None)
                if self._start.continue_tasks and self._waits and self._start.mcp_host is None:
                    self.activity.go_on()
            except BaseException:
                # It was never entered, so no `async with` will close it.
                await self.close()
                raise
        if self._closed is not None:
            raise ClosedError("the session was closed while it started")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def parts(self) -> SessionParts:
        """The services of the session. Private to this package: surfaces use the other methods and the handles.

        Raises:
            ClosedError: The session was not entered.
        """
        if self._parts is None:
            raise ClosedError("the session is not running: enter it with `async with`")
        return self._parts

    @property
    def id(self) -> SessionId:
        """The id that names the session."""
        return self.parts.session_id

    @property
    def closed(self) -> bool:
        """Whether it is closed or being closed."""
        return self._closed is not None

    @property
    def info(self) -> SessionInfo:
        """Ids, versions, policy, model, MCP servers."""
        return describe.session(self.parts)

    @property
    def root(self) -> Conversation:
        """The conversation that always exists."""
        return Conversation(self.parts, self.parts.conversations.root.id)

    async def open(self, *, parent_id: str | None = None, **fields: Unpack[ConversationFields]) -> Conversation:
        """A new isolated conversation. Without any field it is one like root.

        Args:
            parent_id: The conversation that it stands below and is narrowed to; None: root.
            fields: What it is given; `help(tertulia.ConversationFields)` has each.

        Returns:
            The conversation, open; its `warnings` say what was not as asked.

        Raises:
            InvalidParamsError: A field is unknown, or its value is not one of those that there are.
            ToolConflictError: Two different tools would have one name.
            NotFoundError: There is no conversation `parent_id`.
            ClosedError: The session is closed, or was not entered.
        """
        spec = parse_with_functions(OpenFromPython, {**fields, "parent_id": parent_id})
        conversation, resolved = await open_conversation(self.parts, spec)
        return Conversation(self.parts, conversation.id, resolved.warnings)

    def conversation(self, id: str) -> Conversation:
        """The open conversation of that id.

        Args:
            id: Its id, or "root".

        Returns:
            The conversation.

        Raises:
            NotFoundError: There never was one of that id.
            ClosedError: It is closed.
        """
        params = parse(ConversationParams, {"conversation_id": id})
        return Conversation(self.parts, self.parts.conversations.find(params.conversation_id).id)

    def conversations(self) -> list[Conversation]:
        """All open conversations.

        Returns:
            Root first, then by creation.
        """
        return [Conversation(self.parts, conversation.id) for conversation in self.parts.conversations]

    def map(
        self,
        fields: ConversationFields,
        inputs: Iterable[str],
        *,
        max_parallel: int | None = None,
        keep: bool = False,
    ) -> AsyncGenerator[MappedReply, None]:
        """Answer many inputs, each in a conversation of its own.

        Args:
            fields: What each conversation is opened with, as with `open`.
            inputs: The messages; taken as there is room, so there may be many.
            max_parallel: How many conversations are open at once for it; None: as many as the session has slots.
            keep: Whether the conversations stay open; without it each is closed when it has answered.

        Returns:
            The replies as they finish, for `async for`; `index` says which input one answers. What is left early
            stops the rest.

        Raises:
            InvalidParamsError: The first reply was asked for, and `fields` is no mapping, `inputs` is one text or
                `max_parallel` less than 1. An input that is refused is a reply with `error`.
        """
        most = self.parts.scheduler.slots if max_parallel is None else max_parallel
        return map_inputs(self.open, fields, inputs, max_parallel=most, keep=keep, nursery=self.parts.nursery)

    def events(
        self,
        after: int | None = None,
        conversation: str | None = None,
        *,
        attend: bool = False,
        limit: int = 1_000,
        passing: bool = True,
        types: Sequence[str] | None = None,
    ) -> Subscription:
        """Every event from this call on; ends when the session closes.

        Args:
            after: Begin with the event after this number instead.
            conversation: Only the events of this one, by its id.
            attend: Whether the reader answers each `approval_request` that shows in it; without it the reader looks on.
            limit: How many events may wait for a slow reader before it is told that it lags.
            passing: Whether passing events come too; without them only those that have a number.
            types: Only events of these types; None: of all.

        Returns:
            A subscription, for `async for`. One that is no longer held is cleaned up; `async with` does it at once.

        Raises:
            NotFoundError: There is no such conversation.
            InvalidParamsError: There is no event type of a name in `types`.
        """
        params = parse(
            Subscribe,
            {
                "after_seq": after,
                "conversation_id": conversation,
                "passing": passing,
                "types": None if types is None else list(types),
            },
        )
        wanted = None if params.conversation_id is None else self.parts.conversations.find(params.conversation_id).id
        subscription = self.parts.bus.subscribe(
            after=params.after_seq,
            conversation=wanted,
            limit=limit,
            passing=params.passing,
            types=None if types is None else params.event_types(),
        )
        if attend:
            self.parts.command_services.presence.add(subscription, wanted)
        return subscription

    @property
    def approvals(self) -> Approvals:
        """What waits for an answer, and what was allowed for longer; `await session.approvals.resolve(...)`."""
        return Approvals(self.parts)

    @property
    def activity(self) -> SessionActivity:
        """Event numbers, tasks, and whether anything goes on."""
        return SessionActivity(self.parts)

    @property
    def mcp(self) -> McpServers:
        """The MCP servers: `await session.mcp.status()`, `await session.mcp.refresh()`."""
        return McpServers(self.parts)

    async def metrics(self, conversation: str | None = None) -> MetricsAnswer:
        """What this session and its conversations did and cost since it was entered.

        Args:
            conversation: The id of one, or "root": only its numbers, beside those of the session.

        Returns:
            The numbers of the session and of each conversation that did anything, and of the newest 1,000 closed ones.

        Raises:
            NotFoundError: There is no such conversation.
            ClosedError: It is closed, and its numbers are not kept any more.
        """
        return describe_metrics(self.parts, parse(GetMetrics, {"conversation_id": conversation}).conversation_id)

    async def close(self, timeout: float | None = None) -> CloseAnswer:
        """Stop everything, in order, within the timeout; what will not stop is abandoned. Idempotent.

        Args:
            timeout: How many seconds tasks have to end by themselves; None: `close_timeout_s` of the settings.

        Returns:
            Whether it was closed before, and whether something had to be abandoned.

        Raises:
            InvalidParamsError: The timeout is no such time.
        """
        seconds = close_seconds(self.settings, timeout)
        already = self._closed is not None
        if self._closed is None:
            if self._parts is not None:
                # Before the first await: a message that came later would be accepted only to be interrupted.
                stop_accepting(self._parts)
            # A task of its own: a caller that gives up waiting, a tool of this session perhaps, does not stop it.
            self._closed = self._closer.start(close_session(self._parts, seconds), "close the session")
        forced = await asyncio.shield(self._closed)
        return CloseAnswer(closed=True, already_closed=already, forced=forced and not already)


def _checked(handler: ApprovalHandler | None) -> ApprovalHandler | None:
    return None if handler is None else check_handler(handler)
