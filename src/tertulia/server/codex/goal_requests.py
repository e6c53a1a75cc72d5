"""The methods of a Codex client that set, read and clear the goals of its threads."""

from __future__ import annotations

from tertulia.server.codex.goals import SetGoal
from tertulia.server.codex.params import ThreadParams
from tertulia.server.codex.threads import CodexThreads
from tertulia.server.jsonrpc.request_runner import MethodResult


class GoalRequests:
    """Goals belong to threads that are open; for any other thread each method is refused."""

    def __init__(self, threads: CodexThreads) -> None:
        self._threads = threads

    async def set(self, request: SetGoal) -> MethodResult:
        """`thread/goal/set`: give a thread a goal, or change its goal."""
        thread = self._threads.find(request.thread_id)
        return MethodResult({"goal": await thread.set_goal(request)}, thread.pursue)

    async def get(self, request: ThreadParams) -> MethodResult:
        """`thread/goal/get`: the goal of a thread, if it has one."""
        return MethodResult({"goal": self._threads.find(request.thread_id).goal.shown()})

    async def clear(self, request: ThreadParams) -> MethodResult:
        """`thread/goal/clear`: take the goal of a thread away."""
        cleared = self._threads.find(request.thread_id).goal.clear()

        def announce() -> None:
            if cleared:
                self._threads.tell("thread/goal/cleared", {"threadId": request.thread_id})

        return MethodResult({"cleared": cleared}, announce)
