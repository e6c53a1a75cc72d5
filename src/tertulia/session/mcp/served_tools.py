"""A conversation's tools, served to MCP clients: the programs that use the broker, and executors.

The client has the rights of the conversation and no others: its view, its limits, its approvals. An approval is asked
of the client's user, if the client can ask; else it is denied at once.
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
from tertulia.policy.rights import Rights
from tertulia.protocol.events import EventData
from tertulia.protocol.tool_events import ApprovalRequest, Decider, ElicitationRequest, McpToolCallProgress
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.mcp.external_calls import call_externally
from tertulia.session.parts import SessionParts
from tertulia.session.views import refresh_when_shown

_SERVED = ("mcp", "injector")
"""A client has a shell of its own; it gets the MCP servers, and the tools of context providers."""

_ALLOW: dict[str, GrantScope] = {"allow": "once", "allow always, until this client is gone": "conversation"}


class ServedConversation:
    """The tools of one conversation; implements `ToolSource`."""

    def __init__(
        self,
        parts: SessionParts,
        conversation: ConversationState,
        *,
        rights: Callable[[], Rights] | None = None,
        sources: Collection[str] = _SERVED,
    ) -> None:
        """`rights`: of the client, computed at each use, where they may be fewer than the conversation's."""
        self._parts = parts
        self._conversation = conversation
        self._rights = rights or (lambda: conversation.terms.rights)
        self._sources = sources

    async def tools(self) -> Sequence[ServedTool]:
        """The tools that the conversation sees now."""
        await self._parts.servers.settle()
        await self._parts.servers.catch_up()
        return [self._served(spec) for spec in self.specs()]

    def specs(self) -> list[ToolSpec]:
        """The definitions of the tools that the conversation sees, as far as they are known without waiting."""
        parts, conversation = self._parts, self._conversation
        refresh_when_shown(parts, conversation)
        offered = parts.toolbox.offered(conversation.terms, self._rights(), delegating=False)
        return [spec for spec in offered.specs if spec.source in self._sources]

    async def call(self, call: ServedCall) -> CallResult:
        """Call a tool as the conversation's model would."""
        parts, conversation = self._parts, self._conversation
        refresh_when_shown(parts, conversation)
        with self.questions(call) as questions:
            arguments = msgspec.json.encode(call.arguments).decode()
            result = await call_externally(
                parts,
                conversation,
                call.tool,
                arguments,
                self._sources,
                questions.on_event,
                rights=self._rights(),
                program=call.program,
            )
        return CallResult(result.text, not result.success, result.parts, result.structured)

    def questions(self, call: ServedCall) -> ClientQuestions:
        """Pass on to the client, inside the block, what its call asks a person."""
        return ClientQuestions(self._parts, self._conversation, call)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever a server's tools may have changed."""
        return self._parts.servers.watch(changed)

    def _served(self, spec: ToolSpec) -> ServedTool:
        hints, title = ToolHints(), None
        if spec.source == "mcp":
            try:
                tool = self._parts.servers.current(spec, self._conversation.id).tool
                hints, title = tool.hints, tool.title
            except McpError:
                # It was closed just now; a call will say so.
                pass
        return ServedTool(spec.name, spec.description, spec.schema, title, hints)


class ClientQuestions:
    """Asks the client's user what its own call needs: approvals and elicitations."""

    def __init__(self, parts: SessionParts, conversation: ConversationState, call: ServedCall) -> None:
        self._parts = parts
        self._conversation = conversation
        self._call = call
        self._while = ExitStack()

    def __enter__(self) -> ClientQuestions:
        if self._call.can_be_asked:
            self._while.enter_context(self._parts.command_services.approvals.attended(self._conversation.id))
        return self

    def __exit__(self, *exc: object) -> None:
        self._while.close()

    def on_event(self, data: EventData) -> None:
        """Handle an event of the call."""
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
        # A call that is over needs no answer.
        self._while.callback(task.cancel)

    async def _approve(self, request: ApprovalRequest) -> None:
        hidden = hidden_text_notice(request.hidden, request.size, request.digest)
        message = "\n\n".join(part for part in (hidden, request.title, request.detail) if part)
        try:
            answer = await self._call.elicit(Elicitation("tertulia", message, _approval_form(request)))
            decision = str((answer.content or {}).get("decision", "deny")) if answer.action == "accept" else "deny"
        except TertuliaError:
            decision = "deny"
        scope = _ALLOW.get(decision)
        scope = scope if scope in request.scopes else None
        by = Decider("client", "MCP client")
        self._parts.command_services.approvals.resolve(
            request.approval_id, "allow" if scope else "deny", scope=scope, by=by
        )

    async def _pass_on(self, request: ElicitationRequest) -> None:
        """Pass an elicitation of a server to the client's user; the answer is checked as any other."""
        elicitations = self._parts.command_services.elicitations
        try:
            # The client knows only this endpoint. Its user must see which server asks.
            message = f"The MCP server {request.server} asks: {request.message}"
            answer = await self._call.elicit(Elicitation(request.server, message, request.schema, request.url))
            accepted = answer.action == "accept"
            elicitations.resolve(
                request.elicitation_id, "allow" if accepted else "deny", answer.content if accepted else None
            )
        except TertuliaError:
            elicitations.resolve(request.elicitation_id, "deny")


def _approval_form(request: ApprovalRequest) -> dict[str, Any]:
    answers = [*(answer for answer, scope in _ALLOW.items() if scope in request.scopes), "deny"]
    decision = {"type": "string", "enum": answers, "title": "Decision"}
    return {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}
