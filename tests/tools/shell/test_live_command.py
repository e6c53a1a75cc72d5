"""Who keeps the commands that go on. How they are used is tested in test_terminal.py."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tertulia.errors import InternalError, LimitError, NotFoundError, SandboxError
from tertulia.protocol.ids import ConversationId
from tertulia.tools.shell.live_command import MAX_TERMINALS, MAX_TERMINALS_IN_ALL, LiveCommand, Terminals

A, B = ConversationId("a"), ConversationId("b")


class Stub:
    """Can be killed, or cannot."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.killed = False

    def listen(self, publish: Any) -> None:
        self.publish = publish

    async def kill(self) -> None:
        self.killed = True
        if self.error is not None:
            raise self.error


def stub(error: Exception | None = None) -> LiveCommand:
    return cast(LiveCommand, Stub(error))


def terminals() -> Terminals:
    return Terminals(lambda conversation, data: None)


def test_a_number_is_never_given_twice() -> None:
    kept = terminals()
    first = kept.keep(A, stub())
    kept.drop(A, first)
    kept.drop(A, first)
    second = kept.keep(A, stub())
    assert first != second
    assert len(kept) == 1
    with pytest.raises(NotFoundError):
        kept.find(A, first)
    with pytest.raises(NotFoundError):
        kept.find(B, second)


def test_one_conversation_cannot_take_the_room_of_all() -> None:
    kept = terminals()
    for _ in range(MAX_TERMINALS):
        kept.check_room(A)
        kept.keep(A, stub())
    with pytest.raises(LimitError):
        kept.check_room(A)
    kept.check_room(B)
    for number in range(MAX_TERMINALS_IN_ALL - MAX_TERMINALS):
        kept.keep(ConversationId(f"c{number}"), stub())
    with pytest.raises(LimitError):
        kept.check_room(B)


async def test_closing_kills_all_of_them_whatever_one_does() -> None:
    """H3"""
    kept = terminals()
    stubs = [stub(), stub(SandboxError("the kernel holds it")), stub()]
    for number, each in enumerate(stubs):
        kept.keep(A if number else B, each)
    await kept.close()
    assert all(cast(Stub, each).killed for each in stubs)
    assert len(kept) == 0


async def test_a_fault_of_ours_is_not_hidden() -> None:
    kept = terminals()
    kept.keep(A, stub(InternalError("a fault")))
    with pytest.raises(InternalError):
        await kept.forget(A)
