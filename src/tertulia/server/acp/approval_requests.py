"""Asks an editor for approvals by ACP's permission requests, and for elicitations."""

from __future__ import annotations

from typing import Any, cast

from tertulia.policy.approvals.approval_request import GrantScope, hidden_text_notice
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.scheduler.nursery import Nursery
from tertulia.server.acp.content import fence_code, text_block
from tertulia.server.acp.editor import EditorCapabilities
from tertulia.server.acp.tool_calls import AcpToolCalls
from tertulia.server.approval_requests import ApprovalRequests
from tertulia.server.jsonrpc.peer import Peer
from tertulia.session.session import Session

REJECT = "reject"
_ALLOW: dict[GrantScope, tuple[str, str]] = {
    "once": ("Allow once", "allow_once"),
    "conversation": ("Allow for this conversation", "allow_always"),
    "session": ("Allow for this session", "allow_always"),
    "project": ("Allow for this project", "allow_always"),
}
_KINDS = {"exec": "execute", "escalation": "execute", "patch": "edit"}


class AcpApprovalRequests(ApprovalRequests):
    """The open requests of one session to its editor."""

    def __init__(
        self, session: Session, peer: Peer, editor: EditorCapabilities, calls: AcpToolCalls, nursery: Nursery
    ) -> None:
        super().__init__(session, peer, nursery, editor.name)
        self._editor = editor
        self._calls = calls

    async def permit(self, request: ApprovalRequest, event: Event, request_id: int) -> None:
        """Ask by `session/request_permission`, and resolve the approval by the answer."""
        call = self._calls.about(event, request)
        hidden = hidden_text_notice(request.hidden, request.size, request.digest)
        texts = [*([hidden] if hidden else []), *([fence_code(request.detail)] if request.detail else [])]
        tool_call = {
            "toolCallId": request.approval_id if call is None else call.id,
            "title": request.title,
            "kind": _KINDS.get(request.kind, "other"),
            "status": "pending",
            "content": [{"type": "content", "content": text_block(text)} for text in texts],
        }
        # An editor may show no more of a request than its title and these.
        unread = f" ({request.hidden:,} characters not shown)" if hidden else ""
        options = [
            {"optionId": scope, "name": _ALLOW[scope][0] + unread, "kind": _ALLOW[scope][1]} for scope in request.scopes
        ]
        options.append({"optionId": REJECT, "name": "Reject", "kind": "reject_once"})
        params = {"sessionId": self._session.id, "toolCall": tool_call, "options": options}
        scope = _selected_option(await self._peer.ask("session/request_permission", params, request_id))
        if scope in request.scopes:
            await self.resolve(request.approval_id, "allow", scope=scope)
        else:
            await self.resolve(request.approval_id, "deny")

    async def elicit(self, request: ElicitationRequest, request_id: int) -> dict[str, Any] | None:
        """`elicitation/create`, where the editor can show a form or open a page."""
        if request.url is not None and self._editor.pages:
            mode = {"mode": "url", "url": request.url, "elicitationId": request.elicitation_id}
        elif request.url is None and self._editor.forms:
            mode = {"mode": "form", "requestedSchema": request.schema}
        else:
            return None
        message = f"{request.server}: {request.message}"
        params = {"sessionId": self._session.id, "message": message, **mode}
        return await self._peer.ask("elicitation/create", params, request_id)

    def closed(self, request_id: int) -> None:
        """Send nothing: ACP has no such notification, and the peer cancels a request that is withdrawn."""


def _selected_option(response: dict[str, Any] | None) -> Any:
    outcome = (response or {}).get("outcome")
    if not isinstance(outcome, dict):
        return None
    fields = cast("dict[str, Any]", outcome)
    return fields.get("optionId") if fields.get("outcome") == "selected" else None
