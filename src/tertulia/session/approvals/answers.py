"""The answers of the operations that concern approvals and grants."""

from __future__ import annotations

from tertulia.policy.approvals.approval_request import GrantScope, PartName
from tertulia.policy.approvals.grants import Grant
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.session.answers import Answer


class ResolveAnswer(Answer, frozen=True, omit_defaults=True):
    """`approval/resolve`. True in Python when this answer was the one that counted."""

    resolved: bool
    scope: GrantScope | None = None
    """How far a yes reaches; None: it is a no, or did not count."""
    narrowed: str | None = None
    """Why a yes reaches less far than it asked for."""

    def __bool__(self) -> bool:
        return self.resolved


class ApprovalPart(Answer, frozen=True):
    """One of the texts of a request."""

    name: PartName
    size: int
    """Its length in characters, all pages together."""
    digest: str
    """The SHA-256 of its UTF-8 bytes."""


class ApprovalText(Answer, frozen=True):
    """`approval/get`: the request, what texts it has, and a page of one of them."""

    approval: ApprovalRequest
    parts: list[ApprovalPart]
    part: PartName
    offset: int
    text: str
    next_offset: int | None
    """Where the next page begins; None: this is the last one."""


class ApprovalList(Answer, frozen=True):
    """`approval/list`: what waits for an answer, oldest first."""

    approvals: list[ApprovalRequest]
    elicitations: list[ElicitationRequest]


class GrantList(Answer, frozen=True):
    """`approval/grants`: the grants that hold, oldest first."""

    grants: list[Grant]


class RevokeAnswer(Answer, frozen=True):
    """`approval/revoke`. True in Python when there was something to take back."""

    revoked: bool

    def __bool__(self) -> bool:
        return self.revoked
