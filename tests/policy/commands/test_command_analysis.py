"""Commands, before they are allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.commands.command_analysis import GrantKey, analyse_command
from tertulia.protocol.ids import ConversationId
from tests.tables import each_row

A, B = ConversationId("a"), ConversationId("b")


@each_row("shell", ["bash", "sh", "/bin/bash", "/usr/bin/sh"])
@pytest.mark.parametrize("flag", ["-c", "-lc"])
def test_a_script_is_looked_into(shell: str, flag: str) -> None:
    reading = analyse_command([shell, flag, "ls -la && cat 'x y'|head"])
    assert reading.commands == (("ls", "-la"), ("cat", "x y"), ("head",))
    assert reading.known_safe
    assert reading.canonical == (shell, flag, "ls -la && cat 'x y' | head")


@each_row(
    "argv",
    [
        [],
        ["bash"],
        ["bash", "-c"],
        ["bash", "-c", "ls $(evil)"],
        ["bash", "-c", "ls", "name"],
        ["bash", "-ic", "ls"],
        ["bash", "-l", "-c", "ls"],
        ["bash", "--rcfile", "ls"],
        ["bash", "script.sh"],
        ["ls", "a\0b"],
        ["bash", "-c", "ls\0"],
    ],
)
def test_what_cannot_be_read_is_neither_safe_nor_respelled(argv: list[str]) -> None:
    """B1: unparsed = ask."""
    reading = analyse_command(argv)
    assert reading.commands is None
    assert not reading.known_safe
    assert reading.canonical == tuple(argv)


@each_row(
    ("argv", "safe"),
    [
        (["ls", "-la", "$(evil)"], True),
        (["grep", "a\nb", "x"], True),
        (["rm", "x"], False),
        (["./bash", "-c", "ls"], False),
        (["zsh", "-lc", "ls"], False),
        (["bash", "-lc", "ls; rm x"], False),
        (["bash", "-lc", "bash -c ls"], False),
        ([""], False),
    ],
)
def test_a_command_without_a_script_is_read_as_it_is(argv: list[str], safe: bool) -> None:
    reading = analyse_command(argv)
    assert reading.commands is not None
    assert reading.known_safe is safe


@given(st.lists(st.one_of(st.sampled_from(["bash", "-c", "-lc", "ls", "ls; rm"]), st.text(max_size=8)), max_size=4))
def test_the_canonical_spelling_of_a_canonical_spelling_is_itself(argv: list[str]) -> None:
    """HARDENING target 6, and S002-11: a key is found again by what it says."""
    once = analyse_command(argv)
    assert analyse_command(once.canonical) == once


def test_keys_are_equal_whenever_they_end() -> None:
    """S002-11, X-30."""
    key = GrantKey(("exec", "ls"), A, 5.0, "d")
    assert key == GrantKey(("exec", "ls"), A, None, "d")
    assert hash(key) == hash(GrantKey(("exec", "ls"), A, 7.0, "d"))
    for other in (
        GrantKey(("exec", "cat"), A, 5.0, "d"),
        GrantKey(("exec", "ls"), B, 5.0, "d"),
        GrantKey(("exec", "ls"), None, 5.0, "d"),
        GrantKey(("exec", "ls"), A, 5.0, "e"),
        ("exec", "ls"),
    ):
        assert key != other
