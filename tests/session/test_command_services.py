"""Who leaves with a conversation."""

from __future__ import annotations

from tertulia.session.command_services import ConversationResources


class _Resource:
    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.closed = 0

    async def forget(self, conversation: str, /) -> None:
        self.forgotten.append(conversation)

    async def close(self) -> None:
        self.closed += 1


async def test_all_of_them_are_told() -> None:
    """Issue 11, 4: an agent's process is closed with its conversation, and with the session."""
    resources, two = ConversationResources(), (_Resource(), _Resource())
    for resource in two:
        resources.add(resource)
    await resources.forget("c")
    await resources.close()
    assert [(resource.forgotten, resource.closed) for resource in two] == [(["c"], 1)] * 2


async def test_an_agent_leaves_when_its_conversation_has_another() -> None:
    """Issue 11, 4: it alone; and those that keep nothing are not asked."""
    resources, two = ConversationResources(), (_Resource(), _Resource())
    resources.add(two[0])
    resources.add(two[1], "acp:x")
    await resources.take_leave("c", "acp:x")
    await resources.take_leave("c", "native")
    assert [resource.forgotten for resource in two] == [[], ["c"]]
