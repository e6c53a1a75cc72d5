"""The data of the interface."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.sandbox.process import CommandProcess
from tertulia.sandbox.runner import PROTECTED_NAMES, CommandRunner, Confinement, Output, RunningCommand
from tertulia.sandbox.sandbox import Sandbox


def test_the_protected_names_are_those_of_the_design() -> None:
    assert PROTECTED_NAMES == (".git", ".tertulia", ".mcp.json", ".codex", ".claude", ".vscode", ".idea")


def test_a_confinement_is_strict_unless_told_otherwise_and_cannot_be_changed() -> None:
    confinement = Confinement(mode="read_only")
    assert not confinement.network
    assert confinement.writable_roots == ()
    assert confinement.protected == PROTECTED_NAMES
    with pytest.raises(AttributeError):
        confinement.network = True  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(confinement), type=Confinement) == confinement


def test_binary_output_is_shown_with_replacements() -> None:
    output = Output(b"a\xff\xfe", b"b", 4)
    assert output.text() == "a\ufffd\ufffdb"
    assert not output.truncated


def test_a_missing_middle_is_one_line() -> None:
    assert Output(b"head", b"tail", 1_000_008).text() == "head\n[… 1,000,000 of 1,000,008 bytes are left out …]\ntail"


def test_the_implementations_have_every_member_of_the_interface() -> None:
    for protocol, implementation in ((CommandRunner, Sandbox), (RunningCommand, CommandProcess)):
        members = {name for name in vars(protocol) if not name.startswith("_")} - {"tier", "finished"}
        assert [name for name in members if not hasattr(implementation, name)] == []
