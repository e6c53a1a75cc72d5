"""The agents of a session: prepared before their conversations exist, kept up to date, and gone with them.

An agent instance is a conversation. What it is told, which servers and tools it gets and the token it calls back with
come from the context injector; here they are tied to the conversation's life, which ends in many ways.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.context.agent import AgentInstanceMeta
from tertulia.context.canvas import CanvasStore
from tertulia.context.injector import SessionContextInjector
from tertulia.context.internal_calls import AuditRecord, InternalTools
from tertulia.context.offers import McpServer, McpServerStdio
from tertulia.context.provider import SessionContext
from tertulia.context.tokens import SessionTokenStore
from tertulia.conversation.agent import Addition, Agent
from tertulia.conversation.talk import Talk
from tertulia.errors import AgentError, McpError
from tertulia.events.bus import EventBus, Scope
from tertulia.events.clock import Clock
from tertulia.mcp.launch import launch_of
from tertulia.mcp.manager import SessionServers
from tertulia.mcp.member import Candidate
from tertulia.mcp.servers import server_from_wire
from tertulia.policy.redaction import Redactor
from tertulia.prompt.seeds import additions_message
from tertulia.protocol.events import BackgroundEvent, EventData, Warning
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import AgentSpec
from tertulia.protocol.tool_events import CanvasUpdated
from tertulia.session.notary import Arrival

_log = logging.getLogger(__name__)
_KEPT_AUDITS = 1_000


class _Present(msgspec.Struct, frozen=True, eq=False):
    """An agent that is there."""

    meta: AgentInstanceMeta
    context: SessionContext


class Agency:
    """Prepares agents, and answers when they call back."""

    def __init__(
        self,
        injector: SessionContextInjector,
        servers: SessionServers,
        bus: EventBus,
        clock: Clock,
        *,
        redactor: Redactor,
        variables: Mapping[str, str],
        discover: Callable[[], list[tuple[str, Callable[[], object]]]] = list,
    ) -> None:
        self._injector = injector
        self._servers = servers
        self._bus = bus
        self._variables = variables
        self._discover: Callable[[], list[tuple[str, Callable[[], object]]]] | None = discover
        self._tokens = SessionTokenStore(clock, redactor=redactor)
        self.canvases = CanvasStore(self._drawn, clock)
        self.internal = InternalTools(self._tokens, self._note, self.canvases.handlers(), clock=clock)
        self.audit: deque[AuditRecord] = deque(maxlen=_KEPT_AUDITS)
        """The last calls of internal tools, oldest first."""
        self._present: dict[ConversationId, _Present] = {}
        injector.set_token_store(self._tokens)
        injector.set_event_bus(bus)

    async def prepare(self, conversation: ConversationId, spec: AgentSpec, cwd: str) -> Arrival:
        """All that this agent gets, before its conversation exists. If it never does, `dismiss` it."""
        self._find_installed()
        meta = AgentInstanceMeta.of({**msgspec.to_builtins(spec), "cwd": cwd})
        context = await self._injector.prepare(meta.name, meta, conversation, token_in_prompt=False)
        try:
            self._admit(conversation, meta, context)
            await self._servers.settle()
        except BaseException:
            self.dismiss(conversation)
            raise
        return Arrival(conversation, _agent(meta, context))

    async def come_back(self, talks: Iterable[Talk]) -> None:
        """Agents of an earlier life of the session: asked for anew, with new tokens; what they were told they know."""
        for talk in talks:
            if talk.terms.agent is None:
                continue
            told = {name: talk.terms.agent.meta[name] for name in AgentSpec.__struct_fields__}
            try:
                spec = msgspec.convert(told, AgentSpec)
                arrival = await self.prepare(talk.id, spec, talk.terms.cwd)
            except (AgentError, msgspec.ValidationError, KeyError) as error:
                talk.terms = replace(talk.terms, agent=None)
                self._bus.publish(Warning(f"the agent of this conversation is not back: {error}"), Scope("", talk.id))
                continue
            talk.terms = replace(talk.terms, agent=arrival.agent)

    async def refresh(self, talk: Talk) -> None:
        """Between two tasks: what providers say differently now is told, and their tools are those of now."""
        present = self._present.get(talk.id)
        if present is None or talk.terms.agent is None:
            return
        self._tokens.renew(talk.id)
        context = await self._injector.refresh(present.meta.name, present.meta, present.context, token_in_prompt=False)
        if context == present.context:
            return
        self._admit(talk.id, present.meta, context)
        before = {(addition.provider, addition.text) for addition in talk.terms.agent.additions}
        agent = _agent(present.meta, context)
        news = [each.text for each in agent.additions if (each.provider, each.text) not in before]
        talk.terms = replace(talk.terms, agent=agent)
        if news:
            talk.say([additions_message(news, "context_update")], pinned=True)

    def dismiss(self, conversation: ConversationId) -> None:
        """The conversation is gone, or never came to be. Twice does no harm."""
        self._present.pop(conversation, None)
        self.internal.dismiss(conversation)
        self.canvases.close(conversation)
        self._tokens.revoke_session(conversation)

    def close(self) -> None:
        """The session is closed: no token is valid any more."""
        for conversation in list(self._present):
            self.dismiss(conversation)

    def token(self, conversation: ConversationId) -> str | None:
        """What a program needs that calls back in this agent's name. Not to be shown."""
        present = self._present.get(conversation)
        return None if present is None else present.context.token

    @property
    def tokens(self) -> int:
        """How many are valid."""
        return self._tokens.size

    async def call(self, conversation: ConversationId, tool: str, arguments: Any, source: str) -> Any:
        """An internal tool, called by the agent that this conversation is."""
        return await self.internal.call(self.token(conversation), tool, arguments, source=source)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    def _find_installed(self) -> None:
        """Other packages' providers, with the first agent: looking for them costs more than a session."""
        discover, self._discover = self._discover, None
        for problem in () if discover is None else self._injector.register_each(discover()):
            self._bus.publish(Warning(problem, "provider"))

    def _admit(self, conversation: ConversationId, meta: AgentInstanceMeta, context: SessionContext) -> None:
        if conversation not in self._present:
            self.canvases.open(conversation, meta.archetype)
        # Only from the first token on: most sessions have none, and every event would pay for it.
        self._bus.clean = self._tokens.redactor.without_tokens
        self._present[conversation] = _Present(meta, context)
        self.internal.admit(conversation, meta, context.tools)
        self._servers.add_private(conversation, self._candidates(context.mcp_servers, meta.cwd))

    def _candidates(self, servers: Sequence[McpServer], cwd: str | None) -> Iterable[Candidate]:
        for server in servers:
            try:
                definition = server_from_wire(server.name, _table(server), origin="provider")
                yield Candidate(server.name, definition, launch_of(definition, self._variables, (cwd or "/",)))
            except (AgentError, McpError) as error:
                yield Candidate(server.name, status="failed", error=error.message)

    def _drawn(self, conversation: str, data: CanvasUpdated) -> None:
        self._tell(conversation, data)

    def _note(self, record: AuditRecord) -> None:
        self.audit.append(record)
        # Without the arguments: they are content, and a log is no place for it.
        line = msgspec.json.encode(replace(record, params="")).decode()
        _log.info("internal call %s", line)
        said = f"internal tool {record.tool} called ({record.source}, {record.duration_ms} ms): {record.result}"
        self._tell(record.session_id, BackgroundEvent(said))

    def _tell(self, conversation: str | None, data: EventData) -> None:
        scope = None if conversation is None else Scope("", ConversationId(conversation))
        self._bus.publish(data, scope)


def _table(server: McpServer) -> dict[str, Any]:
    if isinstance(server, McpServerStdio):
        return {"command": server.command, "args": list(server.args), "env": server.variables}
    return {"url": server.url, "http_headers": dict(server.headers)}


def _agent(meta: AgentInstanceMeta, context: SessionContext) -> Agent:
    described = {name: getattr(meta, name) for name in AgentSpec.__struct_fields__}
    additions = tuple(Addition(each.provider, each.text, each.tokens) for each in context.fragments)
    tools = tuple(tool.spec() for tool in context.tools)
    return Agent(meta.name, meta.archetype, described, additions, tools)
