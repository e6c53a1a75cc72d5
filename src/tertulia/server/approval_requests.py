"""Asks the client of an ACP or Codex session for approvals and elicitations.

The first answer counts, from whichever client it comes. No answer, one that makes no sense and a client that is gone
are a no. How a request looks on the wire is written in `acp/approval_requests.py` and `codex/approval_requests.py`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from tertulia.errors import TertuliaError
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, ElicitationRequest, ElicitationResolved
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.peer import Peer
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.session import Session


class ApprovalRequests(ABC):
    """The open requests of one session to its client."""

    def __init__(self, session: Session, peer: Peer, nursery: Nursery, client: str) -> None:
        """`client`: the name under which its answers are recorded."""
        self._session = session
        self._peer = peer
        self._nursery = nursery
        self._client = client
        self._open: dict[str, tuple[int, asyncio.Task[None]]] = {}
        """By approval or elicitation: the id of our request, and the task that waits for the response."""

    @abstractmethod
    async def permit(self, request: ApprovalRequest, event: Event, request_id: int) -> None:
        """Send the request for an approval under this id, and `resolve` it by the response."""

    @abstractmethod
    async def elicit(self, request: ElicitationRequest, request_id: int) -> dict[str, Any] | None:
        """Send the request for an elicitation under this id: its `action` and `content`, or None."""

    @abstractmethod
    def closed(self, request_id: int) -> None:
        """A request to the client is answered, or needs no answer any more: tell it so, where the protocol does."""

    def hear(self, event: Event) -> None:
        """Send the open requests after the events so far; withdraw those that another client has answered."""
        match event.data:
            case ApprovalRequest() as request:
                self._start(request.approval_id, lambda id: self.permit(request, event, id))
            case ElicitationRequest() as request:
                self._start(request.elicitation_id, lambda id: self._resolve_elicitation(request, id))
            case ApprovalResolved(approval_id=id) | ElicitationResolved(elicitation_id=id):
                if (task := self._close(id)) is not None:
                    task.cancel()
            case _:
                pass

    async def resolve(self, id: str, decision: str, **fields: Any) -> bool:
        """Pass on the client's answer; whether it was taken."""
        self._close(id)
        with suppress(TertuliaError), answering_as(self._client):
            return bool(await self._session.approvals.resolve(id, decision, **fields))
        return False

    def _start(self, id: str, ask: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        request_id = self._peer.new_id()
        self._open[id] = request_id, self._nursery.start(ask(request_id), "a request to the client")

    def _close(self, id: str) -> asyncio.Task[None] | None:
        request_id, task = self._open.pop(id, (None, None))
        if request_id is not None:
            self.closed(request_id)
        return task

    async def _resolve_elicitation(self, request: ElicitationRequest, request_id: int) -> None:
        response = await self.elicit(request, request_id) or {}
        if (action := response.get("action")) != "accept":
            await self.resolve(request.elicitation_id, "cancel" if action == "cancel" else "deny")
        elif request.url is not None:
            await self.resolve(request.elicitation_id, "allow")
        else:
            content = response.get("content")
            fields = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
            if not await self.resolve(request.elicitation_id, "allow", content=fields):
                # The content does not fit the request, and a client is not asked twice.
                await self.resolve(request.elicitation_id, "deny")
