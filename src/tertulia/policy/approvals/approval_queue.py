"""The queue of approvals: requests wait here until a person, the policy or the clock has answered.

It knows neither the session nor any surface: an approver that may answer says so with `attended`, and calls `resolve`.
It runs on the loop's thread and waits only in `ask`. Only a yes for the project is stored: after a crash no other grant
holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Literal

import msgspec

from tertulia.errors import (
    ApprovalDeniedError,
    BusyError,
    ClosedError,
    InvalidParamsError,
    NoApproverError,
    NotFoundError,
)
from tertulia.events.clock import Clock, Timestamps
from tertulia.policy.approval_policy import ApprovalPolicy, approval_to_wire
from tertulia.policy.approvals.approval_request import (
    GrantScope,
    PreparedRequest,
    RequestedAction,
    policy_verdict,
    prepare_request,
    verdict_reason,
)
from tertulia.policy.approvals.grants import Grant, Grants, IdSequence
from tertulia.policy.approvals.project_grants import AllGrants, ProjectGrants
from tertulia.policy.display_text import value_text
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, Because, Decider

TIMEOUT_S = 300.0
MAX_PENDING = 1_024
SWEEP_EVERY_S = 60.0
HOW_TO_ATTEND = (
    "a client attends with `initialize {attend: true}` or `events/subscribe {attend: true}`, a Python program with"
    " `Session.start(on_approval=…)`, `stream(…, approver=True)` or `events(attend=True)`"
)
"""The end of a refusal where no approver attends."""

WAYS_OUT = (
    "the user can run it at a terminal and be asked, allow more with `--sandbox`, have nothing asked with `-a never`,"
    " or allow this for the project at a terminal once (`tertulia grants` lists that)"
)
"""What the user can do in a run where approvals cannot be answered."""

Publish = Callable[[EventData], object]
Decision = Literal["allow", "deny"]


_LONG = 4 * 1024
"""Characters of a request from which on it is made ready in a thread: each may take ten microseconds to escape."""


class Permission(msgspec.Struct, frozen=True, gc=False):
    """That something is allowed, and why. A denial is an error, so that no caller can overlook it."""

    decider: Decider
    scope: GrantScope | None = None

    @property
    def by_policy(self) -> bool:
        """A permission that the policy gives without asking."""
        return self.decider.kind == "policy"


class Resolution(msgspec.Struct, frozen=True, gc=False):
    """The effect of an answer. True when this answer was the one that counted."""

    resolved: bool
    scope: GrantScope | None = None
    """How far a yes reaches; None: it is a no, or did not count."""
    narrowed: str | None = None
    """Why a yes reaches less far than it asked for."""

    def __bool__(self) -> bool:
        return self.resolved


class _Answer(msgspec.Struct, frozen=True, gc=False):
    decision: Decision
    reason: str
    """user | grant | timeout | interrupted | shutdown | unattended"""
    decider: Decider
    scope: GrantScope | None = None
    message: str | None = None


_CLOCK = _Answer("deny", "timeout", Decider("clock"))
_INTERRUPT = _Answer("deny", "interrupted", Decider("interrupt"))
_SHUTDOWN = _Answer("deny", "shutdown", Decider("shutdown"))
_LEFT = _Answer("deny", "unattended", Decider("interrupt"))
_UNNAMED = Decider("client")


class _PendingApproval(msgspec.Struct, frozen=True, eq=False):
    request: RequestedAction
    policy: ApprovalPolicy
    shown: PreparedRequest
    publish: Publish
    answer: asyncio.Future[_Answer]

    @property
    def event(self) -> ApprovalRequest:
        return self.shown.event

    @property
    def is_open(self) -> bool:
        """False also once its caller was cancelled: a yes would have no effect."""
        return not self.answer.done()


async def _nothing_to_commit(request: RequestedAction) -> None:
    """Stands in where a yes need not be stored."""


class ApprovalQueue:
    """The open requests and the grants of one session.

    Every request that is published as `approval_request` is published once as `approval_resolved`, in every ending.
    The first answer counts; a later one changes nothing and is no error.
    """

    __slots__ = (
        "_all_grants", "_at", "_attending", "_clock", "_closed", "_committed", "_grants", "_ids", "_is_seen",
        "_max_pending", "_pending", "_set_by", "_timeout_s", "_unattended",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        *,
        timeout_s: float = TIMEOUT_S,
        default_ttl_s: float | None = None,
        max_pending: int = MAX_PENDING,
        is_seen: Callable[[RequestedAction, bool], bool] = lambda request, elicitation: False,
        project: ProjectGrants | None = None,
        unattended: bool = False,
        set_by: Callable[[RequestedAction, ApprovalPolicy], str] = lambda request, policy: "session",
        committed: Callable[[RequestedAction], Awaitable[None]] = _nothing_to_commit,
    ) -> None:
        """`is_seen`: whether a client of a surface attends, besides `attended` blocks; with whether it is asked in the
        name of an MCP server, which not every client can answer. `project`: where a yes for the project is kept; None:
        none is offered. `unattended`: the user has no way to answer, and a refusal says what they can do instead.
        `set_by`: where the policy comes from under which a request is asked, as `Because` spells it. `committed`:
        awaited after a yes, before what was asked for happens: where tasks go on after a crash, it is stored then."""
        self._timeout_s = timeout_s
        self._committed = committed
        self._max_pending = max_pending
        self._is_seen = is_seen
        self._unattended = unattended
        self._set_by = set_by
        self._clock = clock
        self._at = Timestamps(clock).at
        self._grants = Grants(clock)
        self._all_grants = AllGrants(self._grants, project, default_ttl_s)
        self._ids = IdSequence()
        # In the order in which they were asked.
        self._pending: dict[str, _PendingApproval] = {}
        self._attending: Counter[ConversationId | None] = Counter()
        self._closed = False

    @contextlib.contextmanager
    def attended(self, conversation: ConversationId | None = None) -> Generator[None]:
        """Count an approver inside the block: it can answer everything, or what shows in a conversation."""
        self._attending[conversation] += 1
        try:
            yield
        finally:
            self._attending[conversation] -= 1
            if not self._attending[conversation]:
                del self._attending[conversation]

    def is_heard(self, request: RequestedAction, *, elicitation: bool = False) -> bool:
        """Whether there is an approver that gets this request and could answer it; also one of an MCP server."""
        here = (None, request.conversation_id, *request.chain)
        return any(where in self._attending for where in here) or self._is_seen(request, elicitation)

    async def ask(
        self, request: RequestedAction, policy: ApprovalPolicy, publish: Publish, *, known_safe: bool = False
    ) -> Permission:
        """Return when it is allowed, or raise ApprovalDenied; NoApprover at once where there is no approver.

        `policy` is the strictest of the whole chain. A cancelled caller withdraws its request.
        """
        verdict = policy_verdict(policy, request.kind, known_safe=known_safe)
        if verdict == "run":
            return Permission(Decider("policy", value_text(approval_to_wire(policy))))
        if verdict == "deny":
            raise NoApproverError("this needs an approval, and the approval policy does not allow asking for one")
        if (grant := self._all_grants.use(request, policy)) is not None:
            return Permission(Decider("grant", grant_id=grant.grant_id), grant.scope)
        self._check_that_it_can_be_asked(request)
        changed, scopes = self._all_grants.changed(request), self._all_grants.scopes(request)
        rule = verdict_reason(policy, request.kind, known_safe=known_safe)
        because = Because(rule, self._set_by(request, policy))
        request = msgspec.structs.replace(request, changed=changed, scopes=scopes, because=because)
        answer = await self._answer(request, policy, publish)
        if answer is _LEFT:
            raise NoApproverError(_no_approver_text(unattended=self._unattended))
        if answer.decision == "deny":
            raise ApprovalDeniedError(self._refusal(answer))
        await self._committed(request)
        return Permission(answer.decider, answer.scope)

    def resolve(
        self,
        approval_id: str,
        decision: Decision,
        *,
        scope: GrantScope | None = None,
        ttl_s: float | None = None,
        message: str | None = None,
        conversation: ConversationId | None = None,
        by: Decider = _UNNAMED,
    ) -> Resolution:
        """Answer a request. Not resolved: it was settled before, and nothing changes. An unknown id is NotFound.

        `conversation`: the only one that the answering client sees, if so: it must be the request's own, or one
        that waits for it. A yes with a scope that was not offered holds once, and says so. A yes is refused with a
        time to live but no scope that lasts, and where one for the project cannot be stored; a no never is.
        """
        waiting = self._pending.get(approval_id)
        if (waiting is None or not waiting.is_open) and self._ids.gave(approval_id):
            return Resolution(False)
        if waiting is None or not _is_seen_from(conversation, waiting.request):
            raise NotFoundError(f"there is no approval {approval_id[:80]!r}")
        if decision == "deny":
            # Taken whatever else was said with it, and it holds once.
            return Resolution(self._settle(approval_id, _Answer("deny", "user", by, "once", message)))
        _check_ttl(scope, ttl_s)
        offered = waiting.event.scopes
        granted: GrantScope = "once" if scope not in offered else scope
        narrowed = (
            None if scope in (None, granted) else f"{scope} was not offered for this request, so the yes holds once"
        )
        if granted == "once":
            return Resolution(
                self._settle(approval_id, _Answer("allow", "user", by, granted, message)), granted, narrowed
            )
        grant = self._all_grants.add(waiting.request, waiting.policy, granted, ttl_s)
        by = msgspec.structs.replace(by, grant_id=grant.grant_id)
        self._settle(approval_id, _Answer("allow", "user", by, granted, message))
        self._settle_what_is_granted()
        return Resolution(True, granted)

    def prepared(self, approval_id: str) -> PreparedRequest:
        """A request that waits, and every text of it whole. NotFound once it is settled: nothing of it is kept."""
        waiting = self._pending.get(approval_id)
        if waiting is None or not waiting.is_open:
            raise NotFoundError(f"no approval {approval_id[:80]!r} waits for an answer")
        return waiting.shown

    def pending(self, conversation: ConversationId | None = None) -> list[ApprovalRequest]:
        """The requests that wait, oldest first: all, or those that one conversation sees."""
        waiting = [one for one in self._pending.values() if one.is_open]
        return [one.event for one in waiting if _is_seen_from(conversation, one.request)]

    def grants(self, conversation: ConversationId | None = None) -> list[Grant]:
        """What is allowed for longer, that of the project first: all, or what counts in one conversation."""
        return self._all_grants.list(conversation)

    def revoke(self, grant_id: str) -> bool:
        """Take a grant back; False if it was over, NotFound if there never was one."""
        return self._all_grants.revoke(grant_id)

    def interrupt(self, conversation: ConversationId) -> int:
        """Deny what this conversation itself asks for, and no other; how many there were."""
        own = [number for number, waiting in self._pending.items() if waiting.request.conversation_id == conversation]
        return self._deny(own, _INTERRUPT)

    def forget(self, conversation: ConversationId) -> None:
        """The conversation is closed: deny what it asks for, and drop what was allowed for it."""
        self.interrupt(conversation)
        self._grants.forget(conversation)

    def refuse_unheard(self) -> None:
        """Refuse at once what waits and no approver can answer any more, as if it were asked now."""
        self._deny([number for number, waiting in self._pending.items() if not self.is_heard(waiting.request)], _LEFT)

    def close(self) -> None:
        """Deny everything, and every request from now on."""
        self._closed = True
        self._deny(list(self._pending), _SHUTDOWN)

    async def keep_clean(self, every_s: float = SWEEP_EVERY_S) -> None:
        """Drop expired grants from time to time, until cancelled. They do not count before that either."""
        while True:
            await asyncio.sleep(every_s)
            self._grants.sweep()

    # ── waiting and settling ─────────────────────────────────────────────────────────────────────────────────

    def _check_that_it_can_be_asked(self, request: RequestedAction) -> None:
        if self._closed:
            raise ClosedError("the session is closing; no approver is asked any more")
        if not self.is_heard(request):
            raise NoApproverError(_no_approver_text(unattended=self._unattended))
        if len(self._pending) >= self._max_pending:
            raise BusyError(f"{self._max_pending} approvals wait for an answer already", retry_after_s=1)

    async def _answer(self, request: RequestedAction, policy: ApprovalPolicy, publish: Publish) -> _Answer:
        approval_id = self._ids.next()
        now = self._clock.now()
        prepare = partial(prepare_request, request, approval_id, policy, self._at(now), self._at(now + self._timeout_s))
        if len(request.detail) > _LONG:
            shown = await asyncio.to_thread(prepare)
            self._check_that_it_can_be_asked(request)
        else:
            shown = prepare()
        loop = asyncio.get_running_loop()
        waiting = _PendingApproval(request, policy, shown, publish, loop.create_future())
        self._pending[approval_id] = waiting
        # Not asyncio.timeout: it could turn an answer that has just been accepted into a timeout.
        timer = loop.call_later(self._timeout_s, self._settle, approval_id, _CLOCK)
        try:
            publish(waiting.event)
            return await waiting.answer
        finally:
            timer.cancel()
            self._settle(approval_id, _INTERRUPT)

    def _settle(self, approval_id: str, answer: _Answer) -> bool:
        waiting = self._pending.pop(approval_id, None)
        if waiting is None:
            return False
        if waiting.is_open:
            waiting.answer.set_result(answer)
        waiting.publish(
            ApprovalResolved(
                approval_id=approval_id,
                decision=answer.decision,
                scope=answer.scope,
                reason=answer.reason,
                chain=waiting.request.chain,
                by=answer.decider,
            )
        )
        return True

    def _settle_what_is_granted(self) -> None:
        """Resolve pending requests that a new grant covers: an approver is not asked twice."""
        for approval_id, waiting in list(self._pending.items()):
            if waiting.is_open and (grant := self._all_grants.use(waiting.request, waiting.policy)) is not None:
                decider = Decider("grant", grant_id=grant.grant_id)
                self._settle(approval_id, _Answer("allow", "grant", decider, grant.scope))

    def _deny(self, approval_ids: list[str], answer: _Answer) -> int:
        return sum(self._settle(approval_id, answer) for approval_id in approval_ids)

    def _refusal(self, answer: _Answer) -> str:
        match answer.reason:
            case "timeout":
                return f"no approver answered within {self._timeout_s:g} s, which is a no"
            case "user":
                return f"the user said no: {answer.message}" if answer.message else "the user said no"
            case reason:
                return f"not allowed: {reason}"


def _no_approver_text(*, unattended: bool) -> str:
    if unattended:
        return f"this has to be asked, and no approver attends to this run: {WAYS_OUT}"
    return f"this has to be asked, and no client attends to answer it: {HOW_TO_ATTEND}"


def _is_seen_from(conversation: ConversationId | None, request: RequestedAction) -> bool:
    return conversation is None or conversation in (request.conversation_id, *request.chain)


def _check_ttl(scope: GrantScope | None, ttl_s: float | None) -> None:
    if ttl_s is None:
        return
    if scope in (None, "once"):
        raise InvalidParamsError("ttl_s needs the scope conversation, session or project")
    if not (math.isfinite(ttl_s) and ttl_s > 0):
        raise InvalidParamsError(f"ttl_s must be a positive number of seconds, not {ttl_s!r}")
