"""One task of an ACP agent: its reports become steps, its requests are answered, and the task has one end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from tertulia.errors import TaskCancelledError, TertuliaError
from tertulia.executors.acp.client_requests import ClientRequests
from tertulia.executors.acp.updates import AgentUpdates
from tertulia.executors.executor import ExecutorHost, RunEnd, RunFailed, RunFinished, RunInterrupted, Step, UsageReport
from tertulia.executors.json_output import read_table
from tertulia.models.http.stream_decoder import count_at
from tertulia.protocol.items import Usage

MAX_UNREAD = 1_000
"""Steps that may wait to be read; beyond that the agent's messages are not read either."""
_STOPPED = {
    "max_tokens": "the agent ran into its limit of tokens",
    "max_turn_requests": "the agent ran into its limit of requests for one task",
}


class AcpTask:
    """One task: fed by the connection, read by the executor that runs it."""

    def __init__(self, host: ExecutorHost | None) -> None:
        self.may_read: asyncio.Event | None = None
        """Set while messages of the agent may be read; cleared while its steps come faster than they are read."""
        self.steps: deque[Step] = deque()
        self.ending: RunEnd | None = None
        self.failure: TertuliaError | None = None
        """Why the task has no ending, where it failed."""
        self._updates = AgentUpdates()
        self._requests = ClientRequests(host, self._tell, self._updates.call_so_far)
        self._given_up = False
        self._closed = False
        self._serving: set[asyncio.Task[Any]] = set()
        self._served = asyncio.Event()
        self._news = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the agent has ended the task, or the task has failed."""
        return self.ending is not None or self.failure is not None

    def hear(self, update: Mapping[str, Any]) -> None:
        """Take a `session/update` of the agent."""
        for step in self._updates.understand(update):
            self._tell(step)

    async def serve(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the agent; after `give_up` or `close` it is denied."""
        job = asyncio.current_task()
        assert job is not None
        if not self._closed:
            self._serving.add(job)
            try:
                return await self._requests.serve(method, params)
            except asyncio.CancelledError:
                if not self._closed:
                    raise
                # Cancelled by `_deny`: only the agent waits for this answer, and it must get one.
                job.uncancel()
            finally:
                self._serving.discard(job)
                self._served.set()
        if method == "session/request_permission":
            return {"outcome": {"outcome": "cancelled"}}
        raise TaskCancelledError("the task was cancelled")

    def end(self, answer: Mapping[str, Any]) -> None:
        """Take the agent's answer that ends the task."""
        for step in self._updates.end():
            self._tell(step)
        used = _usage(read_table(answer.get("usage")))
        if used is not None:
            self._tell(UsageReport(used))
        self.ending = self._ended(answer.get("stopReason"))
        self._news.set()

    def fail(self, error: TertuliaError) -> None:
        """End the task with this error."""
        for step in self._updates.end():
            self._tell(step)
        self.failure = error
        self._news.set()

    def give_up(self) -> None:
        """Stop reading the task: further steps are dropped, and requests are denied."""
        self._given_up = True
        self._deny()
        self.steps.clear()
        self._let_on()

    async def more(self) -> None:
        """Wait until a step or the end has come since the last call."""
        self._let_on()
        await self._news.wait()
        self._news.clear()

    async def settle(self) -> None:
        """Wait until the task is over."""
        while not self.is_over:
            await self.more()

    async def close(self) -> None:
        """Deny open requests, and end every command that was started for the task."""
        self._deny()
        while self._serving:
            self._served.clear()
            await self._served.wait()
        await self._requests.close()

    def _deny(self) -> None:
        """Deny every request from now on, also those that are being served."""
        if not self._closed:
            self._closed = True
            for job in self._serving:
                job.cancel()

    def _tell(self, step: Step) -> None:
        if self._given_up:
            return
        self.steps.append(step)
        if len(self.steps) > MAX_UNREAD and self.may_read is not None:
            self.may_read.clear()
        self._news.set()

    def _let_on(self) -> None:
        if self.may_read is not None:
            self.may_read.set()

    def _ended(self, reason: object) -> RunEnd:
        match reason:
            case "end_turn":
                return RunFinished(self._updates.last_text)
            case "cancelled":
                return RunInterrupted()
            case "refusal":
                return RunFailed("the agent refused to go on")
            case str() if reason in _STOPPED:
                return RunFailed(_STOPPED[reason], "limit")
            case _:
                return RunFailed(f"the agent stopped for an unknown reason: {reason!r:.80}")


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    if not usage:
        return None
    read, thought = count_at(usage.get("cachedReadTokens")), count_at(usage.get("thoughtTokens"))
    return Usage(
        input_tokens=count_at(usage.get("inputTokens")),
        cached_input_tokens=read,
        output_tokens=count_at(usage.get("outputTokens")),
        reasoning_output_tokens=thought,
        total_tokens=count_at(usage.get("totalTokens")),
    )
