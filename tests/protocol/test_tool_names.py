"""Names of tools: legal, short enough, and never two tools under one."""

from __future__ import annotations

import hashlib
import re

from hypothesis import assume, given
from hypothesis import strategies as st

from tertulia.protocol.tool_spec import (
    CONV_TOOLS,
    canonical_name,
    fqn,
    is_legal,
    is_legal_server,
    normalise_allowlist_entry,
)
from tests.tables import each_row

LEGAL = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
words = st.text(max_size=80) | st.text("ab_-/. é", max_size=80) | st.text("ab_", min_size=60, max_size=80)


@given(words, words)
def test_a_qualified_name_is_legal_and_always_the_same(server, tool) -> None:
    """S000-25, S000-30"""
    name = fqn(server, tool)
    assert LEGAL.fullmatch(name)
    assert is_legal(name)
    assert fqn(server, tool) == name


@given(words, words, words, words)
def test_different_tools_keep_different_names(server, tool, other_server, other_tool) -> None:
    """S000-30, C4: a changed or cut name is told apart by the digest of the whole."""
    assume(f"{server}__{tool}" != f"{other_server}__{other_tool}")
    assert fqn(server, tool) != fqn(other_server, other_tool)


@each_row(("one", "other"), [("a b", "a_b"), ("é", "è"), ("x" * 70, "x" * 71), ("A", "a"), ("a.b", "a/b")])
def test_tools_that_differ_in_one_character_only_keep_different_names(one, other) -> None:
    """C4"""
    assert fqn("server", one) != fqn("server", other)


def test_a_plain_name_is_left_as_it_is() -> None:
    """S000-25"""
    assert fqn("fs", "read_text-file") == "fs__read_text-file"
    assert fqn("s" * 31, "t" * 31) == "s" * 31 + "__" + "t" * 31


@each_row("length", [63, 64, 100, 10_000])
def test_a_longer_name_is_cut_to_exactly_64_characters(length) -> None:
    """S000-30"""
    name = fqn("server", "t" * length)
    assert len(name) == 64
    assert name.startswith("server__t")
    assert name.endswith(hashlib.sha1(f"server__{'t' * length}".encode()).hexdigest())


@each_row("entry", ["server__" + "t" * 80, "server/" + "t" * 80])
def test_a_long_name_may_be_written_in_full(entry) -> None:
    """S000-26, S000-30: nobody knows the digest by heart."""
    assert normalise_allowlist_entry(entry) == (fqn("server", "t" * 80), "/" in entry)


def test_the_digest_is_that_of_the_name_before_it_was_changed() -> None:
    """S000-30: names are part of prompts and grants; another digest would be another tool."""
    assert fqn("s", "a b") == f"s__a_b_{hashlib.sha1(b's__a b').hexdigest()}"


def test_a_name_that_two_servers_could_claim_is_the_same_for_both() -> None:
    """X-25: that is why the way back is a table, and why conflicts are looked for."""
    assert fqn("a__b", "c") == fqn("a", "b__c") == "a__b__c"


@each_row("name", ["", "a b", "a.b", "a/b", "é", "a\n", "x" * 65])
def test_an_illegal_name_is_told(name) -> None:
    """S000-25"""
    assert not is_legal(name)


@each_row("name", ["a", "A-b_9", "x" * 64])
def test_a_legal_name_is_told(name) -> None:
    assert is_legal(name)


def test_servers_follow_the_same_pattern() -> None:
    """S000-31"""
    assert is_legal_server("my-server_2")
    assert is_legal_server("x" * 100)
    assert not any(map(is_legal_server, ["", "my server", "a/b", "é", "a\n"]))


def test_the_conv_tools_are_five_in_fixed_order_and_have_dotted_aliases() -> None:
    """X-01, S004-01"""
    assert CONV_TOOLS == ("conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy")
    assert [canonical_name(f"conv.{name.removeprefix('conv_')}") for name in CONV_TOOLS] == list(CONV_TOOLS)
    assert canonical_name("conv_create") == "conv_create"
    assert canonical_name("conv.fork") == "conv.fork"
    assert all(map(is_legal, CONV_TOOLS))


@each_row(
    ("entry", "normalised"),
    [
        ("fs/read", ("fs__read", True)),
        ("fs__read", ("fs__read", False)),
        ("fs__*", ("fs__*", False)),
        ("fs/*", ("fs__*", True)),
        ("a/b/c", ("a/b/c", False)),
        ("/read", ("/read", False)),
        ("fs/", ("fs/", False)),
        ("", ("", False)),
    ],
)
def test_the_old_spelling_is_normalised_and_told(entry, normalised) -> None:
    """S000-26, X-24: one slash is the old spelling; anything else is left for the validation to refuse."""
    assert normalise_allowlist_entry(entry) == normalised
