"""What the tests of approvals share: requests, a clock, and somebody who asks."""

from __future__ import annotations

import asyncio
from typing import Any

from tertulia.policy.approval_policy import UNTRUSTED, ApprovalPolicy
from tertulia.policy.approvals.approval_queue import ApprovalQueue, Permission
from tertulia.policy.approvals.approval_request import GrantSubject, RequestedAction
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved
from tests.deadlines import HANG_S

A, B, ROOT = ConversationId("a"), ConversationId("b"), ConversationId("root")


class HandClock:
    """Two clocks that somebody moves: one that people may set, one that only goes on."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.seconds = 0.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds


def subject(*words: str, cwd: str = "/w", environment: str = "core", sandbox: str = "workspace-write") -> GrantSubject:
    return GrantSubject(words or ("make", "test"), cwd, environment, sandbox)


def request(conversation: ConversationId = A, **changes: Any) -> RequestedAction:
    fields: dict[str, Any] = {
        "kind": "exec",
        "conversation_id": conversation,
        "title": "Run make test",
        "detail": "make test",
        "subject": subject(),
    }
    return RequestedAction(**fields | changes)


class ApprovalStage:
    """An approval queue with an approver present, and all that it published."""

    def __init__(self, **settings: Any) -> None:
        self.clock = HandClock()
        self.queue = ApprovalQueue(self.clock, **settings)
        self.events: list[EventData] = []
        self._news = asyncio.Event()
        self._presence = self.queue.attended()
        self._presence.__enter__()

    def publish(self, event: EventData) -> None:
        self.events.append(event)
        self._news.set()

    def leave(self) -> None:
        """The one who could answer goes away."""
        self._presence.__exit__(None, None, None)

    def start(
        self, action: RequestedAction | None = None, policy: ApprovalPolicy = UNTRUSTED
    ) -> asyncio.Task[Permission]:
        return asyncio.get_running_loop().create_task(self.queue.ask(action or request(), policy, self.publish))

    async def asked(self, count: int = 1) -> list[ApprovalRequest]:
        """The requests that wait, as soon as there are so many."""
        async with asyncio.timeout(HANG_S):
            while len(self.queue.pending()) < count:
                self._news.clear()
                await self._news.wait()
        return self.queue.pending()

    def resolved(self) -> list[ApprovalResolved]:
        return [event for event in self.events if isinstance(event, ApprovalResolved)]

    def requested(self) -> list[ApprovalRequest]:
        return [event for event in self.events if isinstance(event, ApprovalRequest)]
