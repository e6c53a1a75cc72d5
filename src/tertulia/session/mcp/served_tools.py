"""A conversation's tools, served to a program that is not ours: what the broker and foreign agents are given.

Whoever calls has the rights of the conversation and no others: its view, its limits, its approvals. What would ask a
person asks through the client, if that can ask; else it is denied at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.errors import McpError, TertuliaError
from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult, Elicitation, ToolHints
from tertulia.policy.approvals.approval_request import GrantScope, hidden_text_notice
from tertulia.policy.narrowing import Rights
from tertulia.protocol.events import EventData
from tertulia.protocol.tool_events import ApprovalRequest, Decider, ElicitationRequest, McpToolCallProgress
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.mcp.external_calls import call_externally
from tertulia.session.parts import SessionParts

_SERVED = ("mcp", "injector")
"""A program that calls us has a shell of its own; what it has not are our servers, and our tools for agents."""

_ALLOW: dict[str, GrantScope] = {"allow": "once", "allow always, until this client is gone": "conversation"}


class ServedConversation:
    """Implements `Served` for one conversation."""

    def __init__(
        self,
        parts: SessionParts,
        conversation: ConversationState,
        *,
        rights: Callable[[], Rights] | None = None,
        sources: Collection[str] = _SERVED,
    ) -> None:
        """`rights`: of whoever calls, asked for at each use, where they may be fewer than the conversation's."""
        self._parts = parts
        self._conversation = conversation
        self._rights = rights or (lambda: conversation.terms.rights)
        self._sources = sources

    async def tools(self) -> Sequence[ServedTool]:
        """What the conversation sees now."""
        parts, conversation = self._parts, self._conversation
        await parts.servers.settle()
        await parts.servers.catch_up()
        parts.views.look(conversation)
        offered = parts.toolbox.offered(conversation.terms, self._rights(), delegating=False)
        return [self._served(spec) for spec in offered.specs if spec.source in self._sources]

    async def call(self, call: ServedCall) -> CallResult:
        """As the conversation's model would call it."""
        parts, conversation = self._parts, self._conversation
        parts.views.look(conversation)
        with self.questions(call) as asking:
            arguments = msgspec.json.encode(call.arguments).decode()
            result = await call_externally(
                parts,
                conversation,
                call.tool,
                arguments,
                self._sources,
                asking.hear,
                rights=self._rights(),
                program=call.program,
            )
        return CallResult(result.text, not result.success, result.parts, result.structured)

    def questions(self, call: ServedCall) -> ClientQuestions:
        """Passes on to the client what a call of it asks a person, as long as the block lasts."""
        return ClientQuestions(self._parts, self._conversation, call)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Whenever a server's tools may have changed."""
        return self._parts.servers.watch(changed)

    def _served(self, spec: ToolSpec) -> ServedTool:
        hints, title = ToolHints(), None
        if spec.source == "mcp":
            try:
                tool = self._parts.servers.reached_from(self._conversation.id).current(spec).tool
                hints, title = tool.hints, tool.title
            except McpError:
                # It went away a moment ago; a call will say so.
                pass
        return ServedTool(spec.name, spec.description, spec.schema, title, hints)


class ClientQuestions:
    """Passes on to the client what its own call asks a person."""

    def __init__(self, parts: SessionParts, conversation: ConversationState, call: ServedCall) -> None:
        self._parts = parts
        self._conversation = conversation
        self._call = call
        self._while = ExitStack()

    def __enter__(self) -> ClientQuestions:
        if self._call.can_be_asked:
            self._while.enter_context(self._parts.command_services.desk.attended(self._conversation.id))
        return self

    def __exit__(self, *exc: object) -> None:
        self._while.close()

    def hear(self, data: EventData) -> None:
        """Something that the call published."""
        match data:
            case McpToolCallProgress(progress=done, total=total, message=message):
                self._call.progress(done, total, message)
            case ApprovalRequest():
                self._start(self._approve(data))
            case ElicitationRequest():
                self._start(self._pass_on(data))
            case _:
                pass

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._parts.nursery.start(work, "ask a client")
        # A call that is over has nothing more to ask.
        self._while.callback(task.cancel)

    async def _approve(self, request: ApprovalRequest) -> None:
        hidden = hidden_text_notice(request.hidden, request.size, request.digest)
        message = "\n\n".join(part for part in (hidden, request.title, request.detail) if part)
        try:
            said = await self._call.elicit(Elicitation("tertulia", message, _approval_form(request)))
            decision = str((said.content or {}).get("decision", "deny")) if said.action == "accept" else "deny"
        except TertuliaError:
            decision = "deny"
        scope = _ALLOW.get(decision)
        scope = scope if scope in request.scopes else None
        by = Decider("client", "MCP client")
        self._parts.command_services.desk.resolve(request.approval_id, "allow" if scope else "deny", scope=scope, by=by)

    async def _pass_on(self, asked: ElicitationRequest) -> None:
        """A server asks a person: the client asks its own, and what that says is checked as any other answer."""
        desk = self._parts.command_services.elicitations
        try:
            # The client knows only us. Its person must see that it is not we who ask.
            message = f"The MCP server {asked.server} asks: {asked.message}"
            said = await self._call.elicit(Elicitation(asked.server, message, asked.schema, asked.url))
            accepted = said.action == "accept"
            desk.resolve(asked.elicitation_id, "allow" if accepted else "deny", said.content if accepted else None)
        except TertuliaError:
            desk.resolve(asked.elicitation_id, "deny")


def _approval_form(request: ApprovalRequest) -> dict[str, Any]:
    answers = [*(answer for answer, scope in _ALLOW.items() if scope in request.scopes), "deny"]
    decision = {"type": "string", "enum": answers, "title": "Decision"}
    return {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}
