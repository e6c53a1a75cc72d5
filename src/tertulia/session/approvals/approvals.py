"""The approvals of a session as its user holds them: what waits, what was allowed, and the answer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.policy.approvals.approval_request import MAX_PAGE
from tertulia.policy.approvals.grants import Grant
from tertulia.policy.display_text import visible
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import GetApproval, ListApprovals, ResolveApproval, RevokeGrant
from tertulia.protocol.tool_events import ApprovalRequest, Decider, ElicitationRequest
from tertulia.session.approvals.answers import ApprovalPart, ApprovalText, ResolveAnswer, RevokeAnswer
from tertulia.session.approvals.callback import ApprovalCallback, ApprovalHandler, approval_decision, check_handler
from tertulia.session.inputs import parse
from tertulia.session.parts import SessionParts

_MAX_NAME = 100
_client: ContextVar[str] = ContextVar("tertulia_client", default="python")
"""The name of the client that answers in this context."""


@contextmanager
def answering_as(client: str) -> Generator[None]:
    """Report what is resolved in this block as this client's answer."""
    token = _client.set(visible(client[:_MAX_NAME]))
    try:
        yield
    finally:
        _client.reset(token)


class Approvals:
    """The approvals of a session. A request is an `approval_request` event; `resolve` answers it."""

    __slots__ = ("_parts",)

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    async def pending(self, conversation: str | None = None) -> list[ApprovalRequest]:
        """List the requests that wait for an answer.

        Args:
            conversation: The id of one, or "root": only what shows there, its own and that of those it waits for.

        Returns:
            The requests, oldest first.

        Raises:
            NotFoundError: There is no such conversation.
            ClosedError: It is closed.
        """
        return self._parts.command_services.approvals.pending(self._find(conversation))

    async def elicitations(self, conversation: str | None = None) -> list[ElicitationRequest]:
        """List what MCP servers ask a person.

        Args:
            conversation: The id of one, or "root": only what shows there, its own and that of those it waits for.

        Returns:
            The questions, oldest first; each is answered by `resolve`.

        Raises:
            NotFoundError: There is no such conversation.
            ClosedError: It is closed.
        """
        return self._parts.command_services.elicitations.pending(self._find(conversation))

    async def get(self, approval_id: str, part: str | None = None, offset: int = 0) -> ApprovalText:
        """Read one of the texts of a request that waits, which its event may show shortened.

        Args:
            approval_id: The id of the request.
            part: The name of the text; None: `detail`, which has everything.
            offset: Where the page begins, in characters.

        Returns:
            The request, the names of its texts, and one page of one of them.

        Raises:
            NotFoundError: There is no such text, or no such request; nothing of a request is kept once it is answered.
        """
        params = parse(GetApproval, {"approval_id": approval_id, "part": part, "offset": offset})
        request = self._parts.command_services.approvals.prepared(params.approval_id)
        texts, name = request.texts, params.part or "detail"
        text = texts.get(name)
        if text is None:
            raise NotFoundError(f"this request has no part {name!r}; it has {', '.join(texts)}")
        end = params.offset + MAX_PAGE
        return ApprovalText(
            approval=request.event,
            parts=[ApprovalPart(part, len(whole), request.digests[part]) for part, whole in texts.items()],
            part=name,
            offset=params.offset,
            text=text[params.offset : end],
            next_offset=end if end < len(text) else None,
        )

    async def resolve(self, approval_id: str, decision: str, **fields: Any) -> ResolveAnswer:
        """Answer a request. The first answer counts; a later one changes nothing.

        An elicitation is answered in the same way, under its `elicitation_id`: allowed with the `content` that was
        asked for, denied, or cancelled: the server is told that the person gave no answer.

        Args:
            approval_id: The id of the request.
            decision: "allow" or "deny"; for an elicitation also "cancel".
            fields: Those of `approval/resolve`: scope, ttl_s, message, content.

        Returns:
            Whether this answer counted. A yes with a scope that was not offered holds once, and `narrowed` says so.

        Raises:
            NotFoundError: Nothing was asked here under that id.
            InvalidParamsError: A field is unknown, or its value is not one of those that there are.
        """
        params = parse(ResolveApproval, {**fields, "approval_id": approval_id, "decision": decision})
        command_services = self._parts.command_services
        if command_services.elicitations.gave(params.approval_id):
            if params.scope is not None or params.ttl_s is not None:
                raise InvalidParamsError("an elicitation is answered once; leave out scope and ttl_s")
            answer = ResolveAnswer(
                command_services.elicitations.resolve(params.approval_id, params.decision, params.content)
            )
        elif params.content is not None:
            raise InvalidParamsError("content is for elicitations, and this is an approval; leave it out")
        else:
            became = command_services.approvals.resolve(
                params.approval_id,
                approval_decision(params),
                scope=params.scope,
                ttl_s=params.ttl_s,
                message=params.message,
                by=Decider("client", _client.get()),
            )
            answer = ResolveAnswer(became.resolved, became.scope, became.narrowed)
        await self._parts.bus.flush()
        return answer

    def answer_with(self, handler: ApprovalHandler, conversation: str | None = None) -> ApprovalCallback:
        """Have a function answer from now on. What it raises, and no answer within `approval_timeout_s`, is a no.

        Args:
            handler: Gets the request and returns "allow", "deny" or a mapping with the fields of `resolve`. It may be
                async; one that is not runs in a thread.
            conversation: The id of one, or "root": it answers only what shows there.

        Returns:
            What stops it: `close` it, or use it with `async with`.

        Raises:
            InvalidParamsError: The handler is no function.
            NotFoundError: There is no such conversation.
        """
        return ApprovalCallback(self._parts, check_handler(handler), self._find(conversation))

    async def grants(self, conversation: str | None = None) -> list[Grant]:
        """List what was allowed for longer than once.

        Args:
            conversation: The id of one, or "root": only what counts there.

        Returns:
            The grants, oldest first.

        Raises:
            NotFoundError: There is no such conversation.
            ClosedError: It is closed.
        """
        return self._parts.command_services.approvals.grants(self._find(conversation))

    async def revoke(self, grant_id: str) -> RevokeAnswer:
        """Take a grant back.

        Args:
            grant_id: The id of the grant.

        Returns:
            Whether it was still valid.

        Raises:
            NotFoundError: There never was one of that id.
        """
        return RevokeAnswer(
            self._parts.command_services.approvals.revoke(parse(RevokeGrant, {"grant_id": grant_id}).grant_id)
        )

    def _find(self, conversation: str | None) -> ConversationId | None:
        conversation_id = parse(ListApprovals, {"conversation_id": conversation}).conversation_id
        return None if conversation_id is None else self._parts.conversations.find(conversation_id).id
