"""Who leaves with a conversation."""

from __future__ import annotations

from tertulia.session.command_services import ConversationResources


class _Guest:
    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.closed = 0

    async def forget(self, conversation: str, /) -> None:
        self.forgotten.append(conversation)

    async def close(self) -> None:
        self.closed += 1


async def test_all_of_them_are_told() -> None:
    """Issue 11, 4: an agent's process is closed with its conversation, and with the session."""
    guests, two = ConversationResources(), (_Guest(), _Guest())
    for guest in two:
        guests.add(guest)
    await guests.forget("c")
    await guests.close()
    assert [(guest.forgotten, guest.closed) for guest in two] == [(["c"], 1)] * 2


async def test_an_agent_leaves_when_its_conversation_has_another() -> None:
    """Issue 11, 4: it alone; and those that keep nothing are not asked."""
    guests, two = ConversationResources(), (_Guest(), _Guest())
    guests.add(two[0])
    guests.add(two[1], "acp:x")
    await guests.take_leave("c", "acp:x")
    await guests.take_leave("c", "native")
    assert [guest.forgotten for guest in two] == [[], ["c"]]
