"""The tasks that run, known by id, and their conversations known weakly."""

from __future__ import annotations

import gc
import weakref

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_handle import TaskHandle
from tertulia.protocol.ids import TaskId
from tertulia.scheduler.task_runner import AgentTask, TaskRegistry
from tests.conversation.conversations import make_conversation


def running(conversation: ConversationState, name: str = "t") -> AgentTask:
    task_id = TaskId(name)
    return AgentTask(
        task_id=task_id,
        conversation_id=conversation.id,
        conversation=weakref.ref(conversation),
        sub_id="s",
        kind="user",
        handle=TaskHandle(task_id, 0.0),
        started_at="2026-01-01T00:00:00.000Z",
        chain=(conversation.id,),
    )


async def test_a_task_is_there_from_its_start_to_its_end() -> None:
    """S002-08, S002-09"""
    registry, conversation = TaskRegistry(), make_conversation()
    one, other = running(conversation, "one"), running(conversation, "other")
    registry.add(one)
    registry.add(other)
    assert registry.running() == [one, other]
    assert registry.get(one.task_id) is one
    assert one.task_id in registry
    registry.remove(one.task_id)
    assert registry.running() == [other]
    assert registry.get(one.task_id) is None
    assert one.task_id not in registry
    assert len(registry) == 1


async def test_removing_twice_is_harmless() -> None:
    """S002-08: every ending removes, also when two endings meet."""
    registry, task = TaskRegistry(), running(make_conversation())
    registry.add(task)
    registry.remove(task.task_id)
    registry.remove(task.task_id)
    assert len(registry) == 0


async def test_what_is_listed_does_not_change_under_the_reader() -> None:
    registry, task = TaskRegistry(), running(make_conversation())
    registry.add(task)
    listed = registry.running()
    registry.remove(task.task_id)
    assert listed == [task]


async def test_a_task_can_be_stopped_through_the_registry() -> None:
    """S002-09: unified cancel."""
    registry, task = TaskRegistry(), running(make_conversation())
    registry.add(task)
    found = registry.get(task.task_id)
    assert found is not None
    assert found.handle.abort("interrupted", 3_600) is True
    assert found.handle.abort("interrupted", 3_600) is False
    found.handle.end()
    assert found.handle.status == "cancelled"


async def test_the_registry_keeps_no_conversation_alive() -> None:
    """S002-08, S002-10, G8: with the collector off, while the task runs and when it has ended."""
    gc.disable()
    try:
        registry, conversation = TaskRegistry(), make_conversation()
        task = running(conversation)
        registry.add(task)
        conversation.task = task.handle
        assert task.conversation() is conversation
        del conversation
        assert task.conversation() is None
        task.handle.end()
        registry.remove(task.task_id)
        assert len(registry) == 0
    finally:
        gc.enable()
