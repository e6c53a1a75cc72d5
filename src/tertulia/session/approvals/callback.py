"""A function that answers approvals in a person's place, until it is closed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal, cast

from tertulia.errors import ClosedError, InvalidParamsError, TertuliaError
from tertulia.events.subscription import Subscription
from tertulia.protocol.events import WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import ResolveApproval
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, Decider
from tertulia.session.inputs import parse
from tertulia.session.parts import SessionParts
from tertulia.tools.threads import run_in_thread

ApprovalDecision = Literal["allow", "deny"] | Mapping[str, Any]
"""A word, or the fields of `approval/resolve`: decision, scope, ttl_s, message."""
ApprovalHandler = Callable[[ApprovalRequest], ApprovalDecision | Awaitable[ApprovalDecision]]
"""Gets the request, returns the decision. It may be async; one that is not runs in a thread."""


def check_handler(handler: ApprovalHandler) -> ApprovalHandler:
    """The handler itself. InvalidParams where it cannot be called, now and not at the first request."""
    if not callable(handler):
        what = "None" if handler is None else type(handler).__name__
        raise InvalidParamsError(f"a handler must be a function, not {what}")
    return handler


def approval_decision(answer: ResolveApproval) -> Literal["allow", "deny"]:
    """The decision on an approval. InvalidParams where the answer is for elicitations only."""
    if answer.decision == "cancel":
        raise InvalidParamsError("only an elicitation can be cancelled; an approval is allowed or denied")
    return answer.decision


class ApprovalCallback:
    """Calls the handler for each pending request and each new one, until it or the session is closed.

    A handler is trusted with the answer and with nothing else: when it fails, takes too long or returns no valid
    answer, the request is denied, and a warning says so. Requests are answered side by side.
    """

    def __init__(self, parts: SessionParts, handler: ApprovalHandler, conversation: ConversationId | None) -> None:
        self._parts = parts
        self._handler = handler
        self._decider = Decider("callback", getattr(handler, "__qualname__", type(handler).__name__))
        self._asking: dict[str, asyncio.Task[object]] = {}
        self._news = parts.bus.subscribe(conversation=conversation)
        parts.command_services.presence.add(self._news, conversation, elicitations=False)
        for request in parts.command_services.approvals.pending(conversation):
            self._ask(request)
        parts.nursery.start(self._serve(self._news), "answer approvals")

    async def __aenter__(self) -> ApprovalCallback:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Send it no more requests; those that it has it may still answer. Calling it twice has no effect."""
        self._news.close()

    async def _serve(self, events: Subscription) -> None:
        async for event in events:
            match event.data:
                case ApprovalRequest() as request:
                    self._ask(request)
                case ApprovalResolved() as resolved:
                    self._forget(resolved)
                case _:
                    pass

    def _ask(self, request: ApprovalRequest) -> None:
        # A task of its own, so that its outcome can be examined in every case.
        asking = self._parts.nursery.start(_call_handler(self._handler, request), "an approval handler")
        self._asking[request.approval_id] = asking
        asking.add_done_callback(partial(self._answered, request))

    def _forget(self, resolved: ApprovalResolved) -> None:
        """Another answer came first: a client's, an interruption, or the timeout."""
        asking = self._asking.pop(resolved.approval_id, None)
        if asking is not None:
            asking.cancel()
            if resolved.reason == "timeout":
                self._warn(resolved.approval_id, "did not answer in time")

    def _answered(self, request: ApprovalRequest, asking: asyncio.Task[object]) -> None:
        if self._asking.pop(request.approval_id, None) is None:
            return
        if asking.cancelled():
            self._refuse(request, "was cancelled")
        elif (error := asking.exception()) is not None:
            self._refuse(request, f"failed: {type(error).__name__}")
        else:
            self._resolve(request, asking.result())

    def _resolve(self, request: ApprovalRequest, decision: object) -> None:
        try:
            answer = parse(ResolveApproval, {**_decision_fields(decision), "approval_id": request.approval_id})
            became = self._parts.command_services.approvals.resolve(
                answer.approval_id,
                approval_decision(answer),
                scope=answer.scope,
                ttl_s=answer.ttl_s,
                message=answer.message,
                by=self._decider,
            )
            if became.narrowed is not None:
                self._warn(request.approval_id, f"asked for more than could be allowed: {became.narrowed}")
        except TertuliaError as error:
            self._refuse(request, f"gave no answer that can be used: {error.message}")

    def _refuse(self, request: ApprovalRequest, why: str) -> None:
        message = f"the function that answers approvals {why}"
        self._parts.command_services.approvals.resolve(request.approval_id, "deny", message=message, by=self._decider)
        self._warn(request.approval_id, why)

    def _warn(self, approval_id: str, why: str) -> None:
        try:
            self._parts.bus.publish(
                WarningEvent(f"the function that answers approvals {why} ({approval_id})", "on_approval")
            )
        except ClosedError:
            # The session is closed, and no client is left to read it.
            return


async def _call_handler(handler: ApprovalHandler, request: ApprovalRequest) -> object:
    if inspect.iscoroutinefunction(handler):
        return await handler(request)
    # It may ask a person at a terminal, and the loop must not wait for that.
    decision = await run_in_thread(handler, request)
    return await decision if inspect.isawaitable(decision) else decision


def _decision_fields(decision: object) -> dict[str, Any]:
    match decision:
        case str():
            return {"decision": decision}
        case Mapping():
            return dict(cast("Mapping[str, Any]", decision))
        case _:
            raise InvalidParamsError(f"it must be 'allow', 'deny' or a mapping, not {type(decision).__name__}")
