"""The agents of a session: prepared before their conversations exist, kept up to date, and removed with them.

An agent instance is a conversation. What it is told, which servers and tools it gets and the token it calls back with
come from the context injector; here they are released with the conversation, however that ends.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.canvas import Canvas, CanvasStore
from tertulia.context.definitions import Handler, InternalCaller, McpServer, McpServerStdio
from tertulia.context.injector import SessionContextInjector
from tertulia.context.internal_tools import AuditRecord, InternalTools
from tertulia.context.provider import SessionContext
from tertulia.context.tokens import SessionTokenStore
from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import Agent, ContextAddition
from tertulia.conversation.user_message import additions_message
from tertulia.errors import McpError, StorageError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.mcp.config.launch import resolve_launch, secrets_in_definition
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.mcp.pool.session_server import ConfiguredServer
from tertulia.mcp.pool.session_servers import SessionServers
from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import BackgroundEvent, EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import AgentSpec
from tertulia.protocol.items import UserMessage
from tertulia.protocol.network.access import DIRECT, OutboundNetwork
from tertulia.protocol.records import CanvasRecord
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_events import CanvasUpdated
from tertulia.protocol.validation_text import explain_validation
from tertulia.scheduler.nursery import Nursery
from tertulia.session.agents.callback_server import callback_socket
from tertulia.session.terms import PreparedAgent
from tertulia.tools.tool import CallContext

_HEADING = re.compile(r"(?m)^(?=## )")


def context_updates(first: str, before: Iterable[str], now: Sequence[str]) -> list[str]:
    """Empty if `before` has all of `now` word for word. Else the new sections, and all that is not in `first`.

    So the last of several updates suffices, and the others can be dropped. A section begins with a heading.
    """
    earlier = "\n".join(before)
    sections = [section for text in now for part in _HEADING.split(text) if (section := part.strip())]
    updates = [section for section in sections if section not in earlier]
    return [section for section in sections if section in updates or section not in first] if updates else []


def withdrawal_text(provider: str) -> str:
    """The text for a provider that contributes nothing any more."""
    return f"What was said above by {provider} no longer holds."


class ActiveAgent(msgspec.Struct, frozen=True, eq=False):
    """An agent instance; a new object when its providers contribute something new."""

    meta: AgentInstanceMeta
    context: SessionContext
    silent: tuple[str, ...] = ()
    """Providers that contributed something, and do not any more."""

    @property
    def current_texts(self) -> list[str]:
        """The texts that its providers contribute now, and which earlier ones no longer hold."""
        return [*self.context.system_context_additions, *map(withdrawal_text, self.silent)]

    def followed_by(self, context: SessionContext) -> ActiveAgent:
        """The same agent with what its providers contribute now. A provider that failed has withdrawn nothing."""
        speaking = {fragment.provider for fragment in context.fragments}
        spoken = () if context.warnings else (fragment.provider for fragment in self.context.fragments)
        silent = dict.fromkeys((*self.silent, *spoken))
        return ActiveAgent(self.meta, context, tuple(name for name in silent if name not in speaking))


def injected_texts(conversation: ConversationState) -> list[str]:
    """The messages of a history that the system put there, not the user."""
    return [item.text for item in conversation.history.snapshot() if isinstance(item, UserMessage) and item.injected]


def tell_changes(conversation: ConversationState, before: Iterable[str], now: Sequence[str]) -> None:
    """Tell the agent what holds now and did not before, if anything."""
    first = next((text for text in injected_texts(conversation) if text.startswith("<context_additions>")), "")
    if updates := context_updates(first, before, now):
        conversation.instruct([additions_message(updates, "context_update")])


_log = logging.getLogger(__name__)
_KEPT_AUDITS = 1_000


class _AgentEventSource(msgspec.Struct, frozen=True):
    """The agent that the present events belong to."""

    storage: StoragePolicy | None = None
    """The policy by which it is stored, where that may be stricter than the agent's own."""
    publish: Callable[[EventData], object] | None = None
    """Publishes it as part of the call that caused it."""
    conversation: ConversationId | None = None
    """The agent's conversation, where it is being prepared or refreshed."""


_NO_SOURCE = _AgentEventSource()
_SOURCE: ContextVar[_AgentEventSource] = ContextVar("cause", default=_NO_SOURCE)


class AgentRegistry:
    """Prepares agents, and answers when they call back."""

    def __init__(
        self,
        injector: SessionContextInjector,
        servers: SessionServers,
        bus: EventBus,
        clock: Clock,
        *,
        nursery: Nursery,
        redactor: Redactor,
        socket_path: Path,
        variables: Mapping[str, str],
        access: OutboundNetwork = DIRECT,
        keep: Callable[[CanvasRecord], object],
        discover: Callable[[], list[tuple[str, Callable[[], object]]]] = list,
        starts_servers: bool = True,
    ) -> None:
        self._injector = injector
        self._servers = servers
        self._bus = bus
        self._nursery = nursery
        self._variables = variables
        self._access = access
        self._keep = keep
        self._discover: Callable[[], list[tuple[str, Callable[[], object]]]] | None = discover
        self._tokens = SessionTokenStore(clock, redactor=redactor)
        self.canvases = CanvasStore(self._drawn, clock, redactor.without_tokens)
        drawing = {method: _with_commit(handler, bus) for method, handler in self.canvases.handlers().items()}
        self.internal = InternalTools(self._tokens, self._note, drawing, clock=clock)
        self.callback_socket = callback_socket(socket_path, self.internal, nursery.start)
        self.audit: deque[AuditRecord] = deque(maxlen=_KEPT_AUDITS)
        """The last calls of internal tools, oldest first."""
        self._starts_servers = starts_servers
        """Whether agents get the MCP servers that providers describe."""
        self._present: dict[ConversationId, ActiveAgent] = {}
        self._former: dict[ConversationId, CanvasRecord] = {}
        injector.set_token_store(self._tokens)
        injector.set_event_bus(_AgentEventPublisher(bus))

    async def prepare(
        self, conversation: ConversationId, spec: AgentSpec, cwd: str, storage: StoragePolicy | None = None
    ) -> PreparedAgent:
        """Everything that this agent gets, before its conversation is opened. If that never happens, call `dismiss`.

        `storage`: the policy that its conversation will have. Events about the agent follow it already.
        """
        await self._get_ready()
        meta = AgentInstanceMeta.of({**msgspec.to_builtins(spec), "cwd": cwd})
        with _acting_for(_AgentEventSource(storage, conversation=conversation)):
            context = await self._injector.prepare(meta.name, meta, conversation, token_in_prompt=False)
            try:
                self._admit(conversation, ActiveAgent(meta, context))
                await self._servers.settle()
            except BaseException:
                self.dismiss(conversation)
                raise
        return PreparedAgent(conversation, _to_agent(meta, context), context.warnings)

    def remember(self, record: CanvasRecord) -> None:
        """Restore the canvas of an agent of a resumed session."""
        self._former[record.conversation_id] = record

    async def come_back(self, conversations: Iterable[ConversationState]) -> None:
        """Prepare the agents of a resumed session again, with new tokens. What they were told is in their histories."""
        # In parallel: a provider that hangs delays them only once.
        await asyncio.gather(
            *(
                self._return(conversation, conversation.terms.agent)
                for conversation in conversations
                if conversation.terms.agent is not None
            )
        )
        self._former.clear()

    async def _return(self, conversation: ConversationState, agent: Agent) -> None:
        try:
            spec = msgspec.convert(agent.meta, AgentSpec)
            prepared_agent = await self.prepare(conversation.id, spec, conversation.terms.cwd, conversation.storage)
        except (TertuliaError, msgspec.ValidationError) as error:
            conversation.terms = replace(conversation.terms, agent=None)
            reason = error.message if isinstance(error, TertuliaError) else explain_validation(error, AgentSpec)
            warning = WarningEvent(f"the agent of this conversation is not back: {reason}", "agent")
            self._bus.publish(warning, EventScope("", conversation.id))
            return
        conversation.terms = replace(conversation.terms, agent=prepared_agent.agent)
        tell_changes(
            conversation, injected_texts(conversation), [addition.text for addition in prepared_agent.agent.additions]
        )

    async def refresh(self, conversation: ConversationState) -> None:
        """Between two tasks: tell the agent what its providers say differently, and bring its tools up to date."""
        present = self._present.get(conversation.id)
        if present is None or conversation.terms.agent is None:
            return
        if not self._tokens.renew(conversation.id):
            # The old token has expired for callers from outside; the session gives its own agent a new one.
            token = self._tokens.generate(present.meta.name, conversation.id)
            present = self._present[conversation.id] = replace(present, context=replace(present.context, token=token))
        with _acting_for(_AgentEventSource(conversation.storage, conversation=conversation.id)):
            context = await self._injector.refresh(
                present.meta.name, present.meta, present.context, token_in_prompt=False
            )
            if context == present.context or self._present.get(conversation.id) is not present:
                return
            now = self._admit(conversation.id, present.followed_by(context))
        conversation.terms = replace(conversation.terms, agent=_to_agent(now.meta, context))
        tell_changes(conversation, present.current_texts, now.current_texts)

    def dismiss(self, conversation: ConversationId) -> None:
        """Release the agent of a conversation that is closed or was never opened. Calling it twice has no effect."""
        self._present.pop(conversation, None)
        if self._servers.has_private(conversation):
            # Closing a conversation waits for its servers; for one that was never opened they are ended here.
            self._nursery.start(self._servers.forget(conversation), "end an agent's servers")
        self.internal.dismiss(conversation)
        self.canvases.close(conversation)
        self._tokens.revoke_session(conversation)

    def close(self) -> None:
        """The session is closed: no token is valid any more."""
        self.callback_socket.close()
        for conversation in list(self._present):
            self.dismiss(conversation)

    def context(self, conversation: ConversationId) -> SessionContext | None:
        """The context that this agent was given; None for a conversation without an agent."""
        present = self._present.get(conversation)
        return None if present is None else present.context

    def token(self, conversation: ConversationId) -> str | None:
        """The token with which a program calls back in this agent's name. It must not be shown."""
        present = self._present.get(conversation)
        return None if present is None else present.context.token

    def environment(self, conversation: ConversationId) -> dict[str, str]:
        """Variables for a program that calls back in this agent's name. Not to be shown."""
        token = self.token(conversation)
        address = {"TERTULIA_SOCKET": str(self.callback_socket.path)} if self.callback_socket.is_open else {}
        return {} if not token else {"TERTULIA_TOKEN": token, **address}

    @property
    def tokens(self) -> int:
        """How many tokens are valid now."""
        return self._tokens.size

    async def call(self, call: CallContext, tool: str, arguments: Any, source: str) -> Any:
        """An internal tool, called by the agent that the call's conversation is."""
        with _acting_for(_AgentEventSource(call.rights.storage_policy, call.publish)):
            return await self.internal.call(self.token(call.conversation_id), tool, arguments, source=source)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _get_ready(self) -> None:
        """With the first agent: the callback socket, and other packages' providers, which are slow to find."""
        discover, self._discover = self._discover, None
        for problem in () if discover is None else self._injector.register_each(discover()):
            self._bus.publish(WarningEvent(problem, "provider"))
        try:
            await self.callback_socket.open()
        except (OSError, StorageError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            self._bus.publish(WarningEvent(f"`tertulia internal` cannot reach this session: {reason}", "internal"))

    def _admit(self, conversation: ConversationId, present: ActiveAgent) -> ActiveAgent:
        meta, context = present.meta, present.context
        if conversation not in self._present:
            former = self._former.pop(conversation, None)
            self.canvases.open(conversation, meta.archetype, *_canvas_of(former))
        self._present[conversation] = present
        self.internal.admit(conversation, meta, context.tools)
        if self._starts_servers:
            self._servers.add_private(conversation, self._candidates(context.mcp_servers, meta.cwd))
        return present

    def _candidates(self, servers: Sequence[McpServer], cwd: str | None) -> Iterable[ConfiguredServer]:
        for server in servers:
            try:
                definition = server_from_wire(server.name, _server_table(server), origin="provider")
                for secret in secrets_in_definition(definition, self._variables):
                    self._tokens.redactor.register(secret)
                launch = resolve_launch(definition, self._variables, cwd, self._access)
                yield ConfiguredServer(server.name, definition, launch)
            except (TertuliaError, McpError) as error:
                yield ConfiguredServer(server.name, status="failed", error=error.message)

    def _drawn(self, conversation: str, data: CanvasUpdated) -> None:
        canvas, of = self.canvases.peek(conversation), ConversationId(conversation)
        page = (None, None, None) if canvas is None else (canvas.html, canvas.title, canvas.updated_at)
        self._keep(CanvasRecord(of, data.revision, *page, storage=_SOURCE.get().storage))
        self._tell(conversation, data)

    def _note(self, record: AuditRecord) -> None:
        self.audit.append(record)
        # Without the arguments: they are content, and a log is no place for it.
        line = msgspec.json.encode(replace(record, params="")).decode()
        _log.info("internal call %s", line)
        text = f"internal tool {record.tool} called ({record.source}, {record.duration_ms} ms): {record.result}"
        self._tell(record.session_id, BackgroundEvent(text))

    def _tell(self, conversation: str | None, data: EventData) -> None:
        cause = _SOURCE.get()
        if cause.publish is not None:
            cause.publish(data)
            return
        scope = None if conversation is None else EventScope("", ConversationId(conversation))
        self._bus.publish(data, scope, cause.storage)


class _AgentEventPublisher:
    """The bus, for the injector: events about an agent have the id and the storage policy of its conversation."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def publish(self, event: EventData, /) -> object:
        cause = _SOURCE.get()
        scope = None if cause.conversation is None else EventScope("", cause.conversation)
        return self._bus.publish(event, scope, cause.storage)


@contextmanager
def _acting_for(cause: _AgentEventSource) -> Generator[None]:
    former = _SOURCE.set(cause)
    try:
        yield
    finally:
        _SOURCE.reset(former)


def _with_commit(handler: Handler, bus: EventBus) -> Handler:
    """Call the tool, and return when its change is committed: an agent that updates its canvas faster has to wait."""

    async def act(call: InternalCaller, arguments: dict[str, Any]) -> Any:
        answer = await handler(call, arguments)
        await bus.flush()
        return answer

    return act


def _canvas_of(record: CanvasRecord | None) -> tuple[Canvas | None, int]:
    if record is None or record.html is None:
        return None, 0 if record is None else record.revision
    return Canvas(record.html, record.title, record.updated_at or "", record.revision), record.revision


def _server_table(server: McpServer) -> dict[str, Any]:
    if isinstance(server, McpServerStdio):
        return {"command": server.command, "args": list(server.args), "env": server.variables}
    return {"url": server.url, "http_headers": dict(server.headers)}


def _to_agent(meta: AgentInstanceMeta, context: SessionContext) -> Agent:
    described = {name: getattr(meta, name) for name in AgentSpec.__struct_fields__}
    additions = tuple(
        ContextAddition(fragment.provider, fragment.text, fragment.tokens) for fragment in context.fragments
    )
    tools = tuple(tool.spec for tool in context.tools)
    return Agent(meta.name, meta.archetype, described, additions, tools)
