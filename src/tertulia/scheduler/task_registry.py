"""The tasks that run or wait, by id. It knows their conversations weakly: a task keeps no conversation alive."""

from __future__ import annotations

import weakref

import msgspec

from tertulia.conversation.state import ConversationState, TaskHandle
from tertulia.protocol.events import TaskKind
from tertulia.protocol.ids import ConversationId, TaskId


class AgentTask(msgspec.Struct, frozen=True):
    """One running task and its chain."""

    task_id: TaskId
    conversation_id: ConversationId
    conversation: weakref.ReferenceType[ConversationState]
    sub_id: str
    kind: TaskKind
    handle: TaskHandle
    started_at: str
    chain: tuple[ConversationId, ...]
    """The conversations of the chain, the first caller first."""


class TaskRegistry:
    """Every running task; each is removed at its end, whatever that end is."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[TaskId, AgentTask] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def add(self, task: AgentTask) -> None:
        """List a task when it starts."""
        self._tasks[task.task_id] = task

    def remove(self, task_id: TaskId) -> None:
        """Drop a task at its end."""
        self._tasks.pop(task_id, None)

    def get(self, task_id: TaskId) -> AgentTask | None:
        """The running task of that id."""
        return self._tasks.get(task_id)

    def running(self) -> list[AgentTask]:
        """All of them; one, as long as there is one slot."""
        return list(self._tasks.values())
