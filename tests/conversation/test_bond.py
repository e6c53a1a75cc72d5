"""What another agent's id of a conversation is good for."""

from __future__ import annotations

import pytest

from tertulia.conversation.bond import Bond
from tests.conversation.making import talk, terms

BOND = Bond("t-1", ("codex", "/home/a/.codex"), "/work", 3)


@pytest.mark.parametrize(
    ("agent", "cwd", "revision", "holds"),
    [
        (("codex", "/home/a/.codex"), "/work", 3, True),
        (("claude", "/home/a/.codex"), "/work", 3, False),
        (("codex", "/home/b/.codex"), "/work", 3, False),
        (("codex", "/home/a/.codex"), "/work/sub", 3, False),
        (("codex", "/home/a/.codex"), "/work", 4, False),
    ],
)
def test_it_holds_for_the_same_agent_home_directory_and_history(
    agent: tuple[str, ...], cwd: str, revision: int, holds: bool
) -> None:
    """S003-32; DESIGN, native ids."""
    assert BOND.holds(agent, cwd, revision) is holds


def test_new_terms_undo_it() -> None:
    """DESIGN: set_context makes it stale."""
    conversation = talk()
    assert conversation.bond is None
    conversation.bond = BOND
    conversation.adopt(terms())
    assert conversation.bond is None
