"""What a person at an editor is asked: approvals as permission requests, and what MCP servers want to know.

The first answer counts, whoever gives it. No answer, one that makes no sense and a client that is gone are a no.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal, cast

from tertulia.errors import TertuliaError
from tertulia.policy.approvals.approval_request import hidden_text_notice
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    ElicitationRequest,
    ElicitationResolved,
)
from tertulia.scheduler.nursery import Nursery
from tertulia.server.acp.editor import EditorCapabilities
from tertulia.server.acp.text_stream import text_block
from tertulia.server.acp.tool_call_view import fence_code
from tertulia.server.acp.tool_calls import AcpToolCalls
from tertulia.server.jsonrpc.peer import Peer
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.session import Session

REJECT = "reject"
_ALLOW: dict[Literal["once", "conversation", "session"], tuple[str, str]] = {
    "once": ("Allow once", "allow_once"),
    "conversation": ("Allow for this conversation", "allow_always"),
    "session": ("Allow for this session", "allow_always"),
}
_KINDS = {"exec": "execute", "escalation": "execute", "patch": "edit"}


class AcpApprovalRequests:
    """Of one session."""

    def __init__(
        self, session: Session, peer: Peer, editor: EditorCapabilities, calls: AcpToolCalls, nursery: Nursery
    ) -> None:
        self._session = session
        self._peer = peer
        self._editor = editor
        self._calls = calls
        self._nursery = nursery
        self._asking: dict[str, asyncio.Task[None]] = {}

    def hear(self, event: Event) -> None:
        """Ask what there is to ask, after what was shown so far; and ask no more what somebody else has answered."""
        match event.data:
            case ApprovalRequest() as request:
                self._start(request.approval_id, self._permit(request, event))
            case ElicitationRequest() as request:
                self._start(request.elicitation_id, self._elicit(request))
            case ApprovalResolved(approval_id=id) | ElicitationResolved(elicitation_id=id):
                if (asking := self._asking.pop(id, None)) is not None:
                    asking.cancel()
            case _:
                pass

    def _start(self, id: str, work: Any) -> None:
        self._asking[id] = self._nursery.start(work, "a question to the editor")

    async def _permit(self, request: ApprovalRequest, event: Event) -> None:
        conversation = event.conversation_id or request.conversation_id
        hidden = hidden_text_notice(request.hidden, request.size, request.digest)
        texts = [*([hidden] if hidden else []), *([fence_code(request.detail)] if request.detail else [])]
        shown = {
            "toolCallId": self._calls.asking(conversation, request.call_id) or request.approval_id,
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
        asked = {"sessionId": self._session.id, "toolCall": shown, "options": options}
        said = await self._peer.ask("session/request_permission", asked)
        scope = _selected_option(said)
        if scope in request.scopes:
            await self._resolve(request.approval_id, "allow", scope=scope)
        else:
            await self._resolve(request.approval_id, "deny")

    async def _elicit(self, request: ElicitationRequest) -> None:
        asked: dict[str, Any] = {"sessionId": self._session.id, "message": f"{request.server}: {request.message}"}
        said: dict[str, Any] | None = None
        if request.url is not None and self._editor.pages:
            page = {"mode": "url", "url": request.url, "elicitationId": request.elicitation_id}
            said = await self._peer.ask("elicitation/create", {**asked, **page})
        elif request.url is None and self._editor.forms:
            form = {"mode": "form", "requestedSchema": request.schema}
            said = await self._peer.ask("elicitation/create", {**asked, **form})
        content = (said or {}).get("content")
        if said is None or said.get("action") != "accept":
            await self._resolve(request.elicitation_id, "deny")
        elif request.url is not None:
            await self._resolve(request.elicitation_id, "allow")
        else:
            given = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
            if not await self._resolve(request.elicitation_id, "allow", content=given):
                # Not what was asked for, and an editor is not asked twice.
                await self._resolve(request.elicitation_id, "deny")

    async def _resolve(self, id: str, decision: str, **fields: Any) -> bool:
        self._asking.pop(id, None)
        with suppress(TertuliaError), answering_as(self._editor.name):
            return bool(await self._session.approvals.resolve(id, decision, **fields))
        return False


def _selected_option(said: dict[str, Any] | None) -> Any:
    outcome = (said or {}).get("outcome")
    if not isinstance(outcome, dict):
        return None
    chosen = cast("dict[str, Any]", outcome)
    return chosen.get("optionId") if chosen.get("outcome") == "selected" else None
