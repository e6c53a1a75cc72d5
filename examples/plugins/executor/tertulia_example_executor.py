"""An executor from outside: `open(backend="plugin:echo")`. It answers in capitals and touches nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tertulia.executors.executor import AgentText, Assignment, RunFinished, Step


class Echo:
    """Implements `tertulia.executors.executor.Executor`. It runs nothing, so every assignment's rights are kept."""

    name = "plugin:echo"
    identity = ("echo",)
    can_ask = False
    can_resume = False

    async def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """Do the task, and yield what happens; the last step says how it ended."""
        answer = assignment.prompt.upper()
        yield AgentText("1", answer)
        yield RunFinished(answer)

    async def forget(self, conversation: str) -> None:
        """Nothing is kept of a conversation."""
