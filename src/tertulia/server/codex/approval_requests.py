"""What a person at a Codex client is asked: approvals of commands and changes, and what MCP servers want to know.

The first answer counts, whoever gives it. No answer, one that makes no sense and a client that is gone are a no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from tertulia.errors import TertuliaError
from tertulia.policy.approvals.approval_request import hidden_text_notice
from tertulia.policy.display_text import visible
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    ElicitationRequest,
    ElicitationResolved,
)
from tertulia.scheduler.nursery import Nursery
from tertulia.server.codex.active_turn import ActiveTurn, CodexToolCalls, event_time_ms
from tertulia.server.jsonrpc.peer import Peer
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.session import Session

_COMMAND = "item/commandExecution/requestApproval"
_CHANGE = "item/fileChange/requestApproval"
_ELICIT = "mcpServer/elicitation/request"
_LASTING = ("session", "conversation")
_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


class CodexApprovalRequests:
    """Of one thread."""

    def __init__(
        self, session: Session, peer: Peer, moment: ActiveTurn, calls: CodexToolCalls, nursery: Nursery
    ) -> None:
        self._session = session
        self._peer = peer
        self._moment = moment
        self._calls = calls
        self._nursery = nursery
        self._asking: dict[str, tuple[int, asyncio.Task[None]]] = {}
        """By approval: the number of our request, and who waits for its answer."""

    def hear(self, event: Event) -> None:
        """Ask what there is to ask, after what was shown so far; and ask no more what somebody else has answered."""
        match event.data:
            case ApprovalRequest() as request:
                self._start(request.approval_id, lambda number: self._permit(request, event, number))
            case ElicitationRequest() as request:
                self._start(request.elicitation_id, lambda number: self._elicit(request, number))
            case ApprovalResolved(approval_id=id) | ElicitationResolved(elicitation_id=id):
                if (asking := self._asking.get(id)) is not None:
                    self._over(id)
                    asking[1].cancel()
            case _:
                pass

    def _start(self, id: str, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        number = self._peer.new_id()
        self._asking[id] = number, self._nursery.start(work(number), "a question to a Codex client")

    async def _permit(self, request: ApprovalRequest, event: Event, number: int) -> None:
        if request.kind in ("mcp", "tool"):
            await self._permit_call(request, number)
            return
        item = self._calls.item_of(request.approval_id) or {"id": request.approval_id}
        place = {"threadId": self._moment.thread_id, "turnId": self._moment.turn_id or event.task_id or ""}
        asked: dict[str, Any] = {**place, "itemId": item["id"], "startedAtMs": event_time_ms(event)}
        if request.kind == "patch":
            method, asked = _CHANGE, {**asked, "reason": _reason(request), "grantRoot": None}
        else:
            method = _COMMAND
            shown = {name: _fit(item[name]) for name in ("command", "cwd", "commandActions") if name in item}
            choices = [
                "accept",
                *(["acceptForSession"] if _longest_scope(request) != "once" else []),
                "decline",
                "cancel",
            ]
            asked |= {**shown, "kind": "command", "reason": _reason(request), "availableDecisions": choices}
        decision = ((await self._peer.ask(method, asked, number)) or {}).get("decision")
        await self._decide(request, decision)

    async def _decide(self, request: ApprovalRequest, decision: Any) -> None:
        if decision == "accept":
            await self._resolve(request.approval_id, "allow", scope="once")
        elif decision == "acceptForSession":
            await self._resolve(request.approval_id, "allow", scope=_longest_scope(request))
        else:
            # Rules were not offered, so whoever makes one has misread the question.
            await self._resolve(request.approval_id, "deny")
            if decision == "cancel":
                await self._session.root.interrupt()

    async def _permit_call(self, request: ApprovalRequest, number: int) -> None:
        """Calls have no request of their own in Codex: a form without a field is what it uses for them."""
        form = {"mode": "form", "message": _reason(request), "requestedSchema": _EMPTY}
        said = await self._ask_server("tertulia", form, number)
        decision = "allow" if said.get("action") == "accept" else "deny"
        await self._resolve(request.approval_id, decision, **({"scope": "once"} if decision == "allow" else {}))

    async def _elicit(self, request: ElicitationRequest, number: int) -> None:
        if request.url is None:
            form = {"mode": "form", "message": request.message, "requestedSchema": request.schema}
        else:
            form = {"mode": "url", "message": request.message, "url": request.url}
            form |= {"elicitationId": request.elicitation_id}
        said = await self._ask_server(request.server, form, number)
        if said.get("action") != "accept":
            await self._resolve(request.elicitation_id, "deny")
        elif request.url is not None:
            await self._resolve(request.elicitation_id, "allow")
        else:
            content = said.get("content")
            given = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
            if not await self._resolve(request.elicitation_id, "allow", content=given):
                # Not what was asked for, and nobody is asked twice.
                await self._resolve(request.elicitation_id, "deny")

    async def _ask_server(self, server: str, form: dict[str, Any], number: int) -> dict[str, Any]:
        place = {"threadId": self._moment.thread_id, "turnId": self._moment.turn_id, "serverName": server}
        return await self._peer.ask(_ELICIT, {**place, **form}, number) or {}

    async def _resolve(self, id: str, decision: str, **fields: Any) -> bool:
        self._over(id)
        with suppress(TertuliaError), answering_as("Codex client"):
            return bool(await self._session.approvals.resolve(id, decision, **fields))
        return False

    def _over(self, id: str) -> None:
        asking = self._asking.pop(id, None)
        if asking is not None:
            told = {"threadId": self._moment.thread_id, "requestId": asking[0]}
            self._peer.notify("serverRequest/resolved", told)


def _fit(value: Any) -> Any:
    """What a person decides by, with nothing in it that hides or moves."""
    match value:
        case str():
            return visible(value, lines=True)
        case list():
            return [_fit(each) for each in cast("list[Any]", value)]
        case dict():
            return {name: _fit(each) for name, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _longest_scope(request: ApprovalRequest) -> str:
    return next((scope for scope in _LASTING if scope in request.scopes), "once")


def _reason(request: ApprovalRequest) -> str:
    """All that a person has to know, whether or not the client shows the command."""
    hidden = hidden_text_notice(request.hidden, request.size, request.digest)
    return "\n".join(part for part in (hidden, request.title, request.detail) if part)
