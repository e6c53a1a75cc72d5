"""Asks a Codex client for approvals of commands, changes and calls, and for elicitations."""

from __future__ import annotations

from typing import Any, cast

from tertulia.policy.approvals.approval_request import hidden_text_notice
from tertulia.policy.display_text import visible
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.scheduler.nursery import Nursery
from tertulia.server.approval_requests import ApprovalRequests
from tertulia.server.codex.active_turn import ActiveTurn, CodexToolCalls, event_time_ms
from tertulia.server.jsonrpc.peer import Peer
from tertulia.session.session import Session

_COMMAND = "item/commandExecution/requestApproval"
_CHANGE = "item/fileChange/requestApproval"
_ELICIT = "mcpServer/elicitation/request"
_LASTING = ("session", "conversation")
_EMPTY_FORM: dict[str, Any] = {"type": "object", "properties": {}}


class CodexApprovalRequests(ApprovalRequests):
    """The open requests of one thread to its client."""

    def __init__(self, session: Session, peer: Peer, turn: ActiveTurn, calls: CodexToolCalls, nursery: Nursery) -> None:
        super().__init__(session, peer, nursery, "Codex client")
        self._turn = turn
        self._calls = calls

    async def permit(self, request: ApprovalRequest, event: Event, request_id: int) -> None:
        """A command, a file change, or a form for any other call."""
        if request.kind in ("mcp", "tool"):
            await self._permit_call(request, request_id)
            return
        item = self._calls.item_of(request.approval_id) or {"id": request.approval_id}
        params: dict[str, Any] = {
            "threadId": self._turn.thread_id,
            "turnId": self._turn.turn_id or event.task_id or "",
            "itemId": item["id"],
            "startedAtMs": event_time_ms(event),
            "reason": _reason(request),
        }
        if request.kind == "patch":
            method = _CHANGE
            params["grantRoot"] = None
        else:
            method = _COMMAND
            lasting = ["acceptForSession"] if _longest_scope(request) != "once" else []
            params |= {name: _visible(item[name]) for name in ("command", "cwd", "commandActions") if name in item}
            params |= {"kind": "command", "availableDecisions": ["accept", *lasting, "decline", "cancel"]}
        response = await self._peer.ask(method, params, request_id) or {}
        await self._decide(request, response.get("decision"))

    async def elicit(self, request: ElicitationRequest, request_id: int) -> dict[str, Any] | None:
        """A form, or a page to open."""
        if request.url is None:
            mode = {"mode": "form", "requestedSchema": request.schema}
        else:
            mode = {"mode": "url", "url": request.url, "elicitationId": request.elicitation_id}
        return await self._ask_form(request.server, request_id, message=request.message, **mode)

    def closed(self, request_id: int) -> None:
        """Send `serverRequest/resolved`: the request is answered, or needs no answer any more."""
        self._peer.notify("serverRequest/resolved", {"threadId": self._turn.thread_id, "requestId": request_id})

    async def _decide(self, request: ApprovalRequest, decision: Any) -> None:
        if decision == "accept":
            await self.resolve(request.approval_id, "allow", scope="once")
        elif decision == "acceptForSession":
            await self.resolve(request.approval_id, "allow", scope=_longest_scope(request))
        else:
            # Rules were not offered, so a client that makes one has misread the request.
            await self.resolve(request.approval_id, "deny")
            if decision == "cancel":
                await self._session.root.interrupt()

    async def _permit_call(self, request: ApprovalRequest, request_id: int) -> None:
        """Calls have no request of their own in Codex: a form without a field is what it uses for them."""
        form = {"mode": "form", "message": _reason(request), "requestedSchema": _EMPTY_FORM}
        response = await self._ask_form("tertulia", request_id, **form) or {}
        if response.get("action") == "accept":
            await self.resolve(request.approval_id, "allow", scope="once")
        else:
            await self.resolve(request.approval_id, "deny")

    async def _ask_form(self, server: str, request_id: int, **form: Any) -> dict[str, Any] | None:
        params = {"threadId": self._turn.thread_id, "turnId": self._turn.turn_id, "serverName": server, **form}
        return await self._peer.ask(_ELICIT, params, request_id)


def _visible(value: Any) -> Any:
    """The text that a person decides by, without characters that hide or reorder text."""
    match value:
        case str():
            return visible(value, lines=True)
        case list():
            return [_visible(entry) for entry in cast("list[Any]", value)]
        case dict():
            return {name: _visible(entry) for name, entry in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _longest_scope(request: ApprovalRequest) -> str:
    return next((scope for scope in _LASTING if scope in request.scopes), "once")


def _reason(request: ApprovalRequest) -> str:
    """All that a person has to know, whether or not the client shows the command."""
    hidden = hidden_text_notice(request.hidden, request.size, request.digest)
    return "\n".join(part for part in (hidden, request.title, request.detail) if part)
