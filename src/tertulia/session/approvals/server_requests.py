"""How an MCP server asks back during a call: a person, by approvals and elicitations, or the conversation's own model.

Denied unless the server's configuration, the chain's approval policy and the presence of an approver allow it (C16).
"""

from __future__ import annotations

import os.path
from functools import partial

from tertulia.errors import NoApproverError, UnsupportedByBackendError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.server_connection import Caller, Elicitation, ElicitationResult, SamplingRequest, SamplingResult
from tertulia.policy.approvals.approval_queue import HOW_TO_ATTEND, ApprovalQueue
from tertulia.policy.approvals.approval_request import (
    ApprovalParts,
    GrantSubject,
    RequestedAction,
    as_one_line,
    with_label,
)
from tertulia.session.approvals.elicitations import Elicitations
from tertulia.tools.tool import CallContext

MAX_TOKENS = 4_096
"""The most that one sampling answer may have, whatever the server asks for."""


class ServerRequests:
    """Answers what MCP servers request during a call; implements `CallerFactory`."""

    def __init__(self, approvals: ApprovalQueue, elicitations: Elicitations, *, has_workspace: bool = True) -> None:
        """`has_workspace`: whether callers work in a directory that servers may know."""
        self._approvals = approvals
        self._elicitations = elicitations
        self._has_workspace = has_workspace

    def caller(self, definition: ServerDefinition, call: CallContext) -> Caller:
        """The asker of one call; what it asks shows where the call does."""
        return Caller(
            call.conversation_id,
            partial(self._elicit, definition, call),
            partial(self._sample, definition, call),
            os.path.realpath(call.cwd) if self._has_workspace else None,
        )

    async def _elicit(
        self, definition: ServerDefinition, call: CallContext, elicitation: Elicitation
    ) -> ElicitationResult:
        if not definition.elicitation:
            raise NoApproverError(f"`[mcp_servers.{definition.name}] elicitation` does not let it ask a person")
        if not call.rights.approval_policy.may_ask:
            raise NoApproverError("the approval policy lets no person be asked")
        request = _approval_request(
            definition, call, f"the MCP server {definition.name} asks for something", elicitation.message
        )
        if not self._approvals.is_heard(request, elicitation=True):
            raise NoApproverError(f"no client attends to answer it: {HOW_TO_ATTEND}")
        return await self._elicitations.ask(elicitation, call)

    async def _sample(
        self, definition: ServerDefinition, call: CallContext, sampling: SamplingRequest
    ) -> SamplingResult:
        if not definition.sampling:
            raise NoApproverError(f"`[mcp_servers.{definition.name}] sampling` does not let it ask the model")
        if call.aside is None:
            raise UnsupportedByBackendError("there is no model to ask here")
        bounded = SamplingRequest(
            sampling.server, sampling.messages, sampling.system, max(1, min(sampling.max_tokens, MAX_TOKENS))
        )
        messages = [
            with_label(f"{as_one_line(role)}, in the words of the server", text) for role, text in bounded.messages
        ]
        instructions = (
            [with_label("instructions, in the words of the server", bounded.system)] if bounded.system else []
        )
        detail = "\n".join([*instructions, *messages])
        title = f"the MCP server {definition.name} wants an answer of the model"
        request = _approval_request(definition, call, title, detail)
        await self._approvals.ask(request, call.rights.approval_policy, call.publish)
        return await call.aside(bounded)


def _approval_request(definition: ServerDefinition, call: CallContext, title: str, detail: str) -> RequestedAction:
    return RequestedAction(
        kind="mcp",
        conversation_id=call.conversation_id,
        chain=call.chain.callers,
        call_id=call.call_id,
        title=title,
        detail=detail,
        subject=GrantSubject((definition.name, title, detail), call.cwd, f"MCP server {definition.name}", "none"),
        parts=ApprovalParts(server=definition.name),
        scopes=("once",),
    )
