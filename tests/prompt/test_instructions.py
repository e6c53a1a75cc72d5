"""Which instructions stand at the top of a request, and the key under which a provider may cache them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.context.provider_answers import count_tokens
from tertulia.prompt import request
from tertulia.prompt.request import builtin_text, cache_key, full_instructions, instruction_parts
from tertulia.prompt.tool_list import assemble_tools
from tests.deadlines import HANG_S
from tests.prompt.specs import mcp, spec
from tests.tables import each_row

NEEDS_PATCH_TEXT = "scripted"
KNOWS_PATCHES = "gpt-5-codex"
EDITOR = frozenset({"shell", "view", "edit", "write", "grep", "glob"})
PROVIDER = frozenset({"bash", "str_replace_based_edit_tool", "grep", "glob"})
TOOLS = assemble_tools([spec("shell"), mcp("fs", "read", path="string")])


def names(has_apply_patch: bool) -> frozenset[str]:
    return frozenset({"shell", "apply_patch"} if has_apply_patch else {"shell"})


# ---- the override


@given(st.text(), st.booleans(), st.sampled_from([NEEDS_PATCH_TEXT, KNOWS_PATCHES, ""]))
def test_an_override_is_used_exactly_as_it_is(text, has_apply_patch, family) -> None:
    """S000-09, S000-12: nothing is appended, not even to an empty text."""
    assert full_instructions(text, names(has_apply_patch), family) is text


def test_without_an_override_the_built_in_text_is_used() -> None:
    """S000-09, S000-40"""
    made = full_instructions(None, names(True), NEEDS_PATCH_TEXT)
    assert made == builtin_text("prompt") + builtin_text("code") + builtin_text("patch")
    assert "Tertulia" in made


@each_row(
    ("override", "has_apply_patch", "family", "appended"),
    [
        (None, False, NEEDS_PATCH_TEXT, True),
        (None, True, NEEDS_PATCH_TEXT, False),
        (None, False, KNOWS_PATCHES, False),
        (None, True, KNOWS_PATCHES, False),
        ("mine", False, NEEDS_PATCH_TEXT, False),
        ("mine", True, NEEDS_PATCH_TEXT, False),
        ("mine", False, KNOWS_PATCHES, False),
        ("", False, NEEDS_PATCH_TEXT, False),
    ],
)
def test_the_patch_text_is_appended_only_without_override_tool_and_knowledge(
    override, has_apply_patch, family, appended
) -> None:
    """S000-11, S000-12, S000-40, X-21: None override AND tool absent AND family needs it."""
    made = full_instructions(override, names(has_apply_patch), family)
    assert made.endswith(builtin_text("apply_patch")) is appended
    assert made.count("*** Begin Patch") == appended


def test_the_patch_text_stands_apart_from_the_built_in_text() -> None:
    """S000-11: a heading of its own, after a blank line."""
    made = full_instructions(None, names(False), NEEDS_PATCH_TEXT)
    before, _, after = made.partition("\n\nEditing files")
    assert f"{before}\n" == builtin_text("prompt") + builtin_text("code")
    assert after


def test_making_instructions_leaves_the_override_as_it_was() -> None:
    """S000-10: a compact turn brings its own text, and the conversation's is byte-identical before and after."""
    own = "You review Python code. ñ😀\r\n\0"
    before = own.encode()
    compact = full_instructions(builtin_text("compact"), names(False), NEEDS_PATCH_TEXT)
    assert compact == builtin_text("compact") != own
    assert full_instructions(own, names(False), NEEDS_PATCH_TEXT).encode() == before


@each_row(
    ("tools", "parts"),
    [
        (frozenset(), ["prompt", "apply_patch"]),
        (names(True), ["prompt", "code", "patch"]),
        (names(False), ["prompt", "code", "apply_patch"]),
        (EDITOR, ["prompt", "code", "editor"]),
        (PROVIDER, ["prompt", "code", "provider"]),
        (EDITOR - {"edit", "write"}, ["prompt", "code"]),
    ],
)
def test_the_parts_fit_the_tools_and_take_900_tokens_at_most(tools: frozenset[str], parts: list[str]) -> None:
    """Issue 24: one for work on code, one for each profile; counted as `tertulia prompt` does."""
    assert [name for name, _ in instruction_parts(tools, NEEDS_PATCH_TEXT)] == parts
    made = full_instructions(None, tools, NEEDS_PATCH_TEXT)
    assert made == "".join(builtin_text(name) for name in parts)
    assert count_tokens(made) <= 900
    assert full_instructions(None, tools, NEEDS_PATCH_TEXT) is made


# ---- the texts that ship


@each_row("name", ["prompt", "compact", "apply_patch"])
def test_the_texts_ship_with_the_package_and_are_short(name) -> None:
    """A few hundred tokens: every request pays for them."""
    text = builtin_text(name)
    assert 200 < len(text.encode()) < 4 * 800
    assert text.endswith("\n")
    assert builtin_text(name) is text


# ---- the cache key


def test_the_cache_key_is_the_same_for_the_same_parts() -> None:
    """S000-45, X-68"""
    again = assemble_tools([mcp("fs", "read", path="string"), spec("shell")])
    assert cache_key("be brief", TOOLS.digest, "gpt") == cache_key("be brief", again.digest, "gpt")
    assert len(cache_key("be brief", TOOLS.digest, "gpt")) == 32


@each_row(
    ("text", "tools", "family"),
    [
        ("be brief.", TOOLS, "gpt"),
        ("", TOOLS, "gpt"),
        ("be brief", TOOLS, "gpt-5"),
        ("be brief", assemble_tools([]), "gpt"),
        ("be brief", assemble_tools([spec("shell")]), "gpt"),
        ("be brief", assemble_tools([spec("shell"), mcp("fs", "read2", path="string")]), "gpt"),
        ("be brief", assemble_tools([spec("shell"), mcp("fs", "read", path="integer")]), "gpt"),
        ("be brief", assemble_tools([spec("shell"), mcp("fs", "read", "reads", path="string")]), "gpt"),
    ],
    ids=["text", "no-text", "family", "no-tools", "fewer-tools", "name", "schema", "description"],
)
def test_the_cache_key_changes_with_each_part(text, tools, family) -> None:
    """S000-45, X-68: names, schemas, base instructions, family."""
    assert cache_key(text, tools.digest, family) != cache_key("be brief", TOOLS.digest, "gpt")


def test_the_parts_of_a_cache_key_cannot_pass_for_one_another() -> None:
    """X-68: what moves from one part to the next makes another key."""
    keys = {cache_key("a", "b", "c"), cache_key("ab", "", "c"), cache_key("a", "bc", ""), cache_key("", "ab", "c")}
    assert len(keys) == 4


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_the_cache_key_is_the_same_in_another_process(seed) -> None:
    """S000-45, X-68, C18"""
    code = (
        "from tertulia.prompt.request import cache_key\n"
        "from tertulia.prompt.tool_list import assemble_tools\n"
        "from tests.prompt.specs import mcp, spec\n"
        "tools = assemble_tools([mcp('fs', 'read', path='string'), spec('shell')])\n"
        "print(cache_key('be brief', tools.digest, 'gpt'), end='')"
    )
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert run.stdout == cache_key("be brief", TOOLS.digest, "gpt")


def test_no_memo_keeps_the_instructions_of_a_conversation() -> None:
    """G1: a text of 16 MB must be gone with the conversation that brought it."""
    memos = [name for name, value in vars(request).items() if hasattr(value, "cache_info")]
    assert sorted(memos) == ["_builtin", "_builtin_for", "builtin_text"]
