"""S002-05: an id of one kind cannot stand for another. Checked by the type checker, never run.

Each wrong call below carries the one error it must give. Should the ids ever become interchangeable, the comment is
unnecessary, and `reportUnnecessaryTypeIgnoreComment` fails the check.
"""

from __future__ import annotations

from tertulia.protocol.ids import (
    CallId,
    ConversationId,
    ItemId,
    SessionId,
    TaskId,
    new_conversation_id,
    new_item_id,
    new_session_id,
    new_task_id,
)


def of_session(session: SessionId) -> None: ...
def of_conversation(conversation: ConversationId) -> None: ...
def of_task(task: TaskId) -> None: ...
def of_call(call: CallId) -> None: ...
def of_item(item: ItemId) -> None: ...


of_session(new_session_id())
of_conversation(new_conversation_id())
of_task(new_task_id())
of_call(CallId("call_1"))
of_item(new_item_id())

of_session(new_conversation_id())  # pyright: ignore[reportArgumentType]
of_session(new_task_id())  # pyright: ignore[reportArgumentType]
of_conversation(new_session_id())  # pyright: ignore[reportArgumentType]
of_conversation(new_task_id())  # pyright: ignore[reportArgumentType]
of_task(new_session_id())  # pyright: ignore[reportArgumentType]
of_task(new_conversation_id())  # pyright: ignore[reportArgumentType]
of_task(CallId("call_1"))  # pyright: ignore[reportArgumentType]
of_call(new_task_id())  # pyright: ignore[reportArgumentType]
of_call(new_item_id())  # pyright: ignore[reportArgumentType]
of_item(CallId("call_1"))  # pyright: ignore[reportArgumentType]
of_conversation("any text")  # pyright: ignore[reportArgumentType]
