"""The interface through which an agent asks the house."""

from __future__ import annotations

from tertulia.conversation.executor_host import TaskExecutorHost
from tertulia.executors.host import ExecutorHost, PermissionAnswer, PermissionQuestion


def test_a_no_is_no_lasting_one() -> None:
    """Strictest wins: what nobody said is not allowed for longer."""
    assert not PermissionAnswer(allowed=False).lasting
    assert PermissionQuestion(doing="read", title="t", detail="d", words=("w",)).paths == ()


def test_the_house_of_a_session_is_one() -> None:
    """Every question has somebody who answers it."""
    asked = {name for name in vars(ExecutorHost) if not name.startswith("_")}
    assert asked == {"permit", "read", "write", "start"}
    assert asked <= set(dir(TaskExecutorHost))
