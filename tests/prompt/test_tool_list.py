"""Which tools a conversation is offered: in one order, without doubles, and no name twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import ToolConflictError
from tertulia.models.wire import ItemsDialect
from tertulia.prompt.tool_list import NO_TOOLS, OfferedTools, assemble_tools
from tertulia.protocol.tool_spec import CONV_TOOLS, ToolSpec
from tests.deadlines import HANG_S
from tests.prompt.specs import BUILTINS, every_kind, mcp, spec

# Small pools, so that names collide: `a__b` + `c` and `a` + `b__c` are one name.
mcp_specs = st.lists(
    st.builds(
        mcp,
        st.sampled_from(["a", "a__b", "fs"]),
        st.sampled_from(["c", "b__c", "read"]),
        st.sampled_from(["", "reads", "writes"]),
        path=st.sampled_from(["string", "integer"]),
    ),
    max_size=8,
)


def names(tools: OfferedTools) -> list[str]:
    return [tool.name for tool in tools.specs]


# ---- order


def test_tools_stand_in_the_order_of_the_contract() -> None:
    """S000-27, S002-29, X-27, S000-43: a snapshot."""
    tools = assemble_tools(every_kind())
    assert names(tools) == [
        *("shell", "bash", "local_shell", "exec_command", "write_stdin", "apply_patch"),
        *("view", "edit", "str_replace_based_edit_tool", "write", "grep", "glob"),
        *("update_plan", "view_image", "web_search"),
        *("conv_create", "conv_send", "conv_list", "conv_history", "conv_destroy"),
        *("zeta_canvas", "alpha_canvas", "zeta_function", "alpha_function"),
        *("Zoo__feed", "fs__read", "fs__write"),
    ]
    assert tools.names == set(names(tools))
    assert tools.conflicts == ()


def test_the_tool_that_comes_and_goes_is_the_last_of_all() -> None:
    """Issue 20 (8): what a provider has cached of the list before it stays good."""
    usual = assemble_tools(every_kind())
    merging = assemble_tools([spec("conv_merge", "conv"), *every_kind()])
    assert names(merging) == [*names(usual), "conv_merge"]
    dialect = ItemsDialect()
    assert merging.encoded(dialect).startswith(usual.encoded(dialect)[:-1])


def test_only_what_is_ordered_by_registration_depends_on_the_order_it_came_in() -> None:
    """S002-29, X-27: built-ins and MCP tools have their places."""
    backwards = names(assemble_tools(reversed(every_kind())))
    in_order = names(assemble_tools(every_kind()))
    first, last = len(BUILTINS) + len(CONV_TOOLS), -3
    assert backwards[:first] == in_order[:first]
    assert backwards[last:] == in_order[last:]
    assert backwards[first:last] == ["alpha_canvas", "zeta_canvas", "alpha_function", "zeta_function"]


def test_mcp_tools_are_sorted_by_plain_code_points() -> None:
    """S000-27"""
    tools = assemble_tools(
        [mcp("b", "x"), mcp("a", "y"), mcp("B", "x"), mcp("a", "Y"), mcp("a-b", "x"), mcp("a_b", "x")]
    )
    assert names(tools) == ["B__x", "a-b__x", "a__Y", "a__y", "a_b__x", "b__x"] == sorted(names(tools))


def test_a_built_in_that_nobody_ranked_stands_behind_those_that_are() -> None:
    assert names(assemble_tools([spec("aaa"), spec("web_search"), spec("shell")])) == ["shell", "web_search", "aaa"]


@given(st.data())
def test_the_list_does_not_depend_on_the_order_in_which_mcp_tools_came(data) -> None:
    """S000-43, S002-31, C18: conflicts, doubles and their descriptions included."""
    specs = data.draw(mcp_specs)
    shuffled = data.draw(st.permutations(specs))
    assert assemble_tools(shuffled) == assemble_tools(specs)


def test_the_same_tools_give_the_same_list_over_repeated_runs() -> None:
    """S000-43, S002-31"""
    first = assemble_tools(every_kind())
    for _ in range(50):
        assert assemble_tools(every_kind()) == first


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_the_list_is_the_same_in_a_fresh_process(seed) -> None:
    """S000-43, S002-31, C18: whatever the seed of hashes is."""
    code = (
        "from tertulia.prompt.tool_list import assemble_tools\n"
        "from tests.prompt.specs import every_kind\n"
        "tools = assemble_tools(every_kind())\n"
        "print(tools.digest, *(tool.name for tool in tools.specs), end='')"
    )
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    here = assemble_tools(every_kind())
    assert run.stdout.split() == [here.digest, *names(here)]


def test_every_name_that_is_offered_is_legal() -> None:
    """S000-25: FQN is `server__tool`, and what models see matches the pattern."""
    tools = assemble_tools([mcp("fs", "read file"), mcp("fs", "read.file"), mcp("s" * 60, "tool"), mcp("fs", "read")])
    assert "fs__read" in tools.names
    assert len(tools.names) == 4
    for name in tools.names:
        ToolSpec.define(name, "")


# ---- doubles and conflicts


def test_one_definition_that_comes_twice_is_kept_once() -> None:
    """S000-28, S002-30, X-26"""
    tools = assemble_tools(
        [mcp("fs", "read", path="string"), mcp("fs", "read", path="string"), spec("shell"), spec("shell")]
    )
    assert names(tools) == ["shell", "fs__read"]
    assert tools.require() is tools


def test_one_signature_with_two_descriptions_is_no_conflict() -> None:
    """S002-30: the signature decides."""
    tools = assemble_tools([spec("look", "injector", "first"), spec("look", "function", "second")])
    assert [tool.description for tool in tools.specs] == ["first"]
    assert tools.conflicts == ()


def test_a_name_with_two_signatures_is_offered_to_nobody() -> None:
    """S000-28, S002-30, X-26, C4: no shadowing."""
    tools = assemble_tools([mcp("fs", "read", path="string"), mcp("fs", "read", path="integer"), mcp("fs", "write")])
    assert names(tools) == ["fs__write"]
    assert "fs__read" not in tools.names
    assert len(tools.conflicts) == 1
    with pytest.raises(ToolConflictError, match=r"'fs__read' is claimed by MCP server 'fs' and MCP server 'fs'"):
        tools.require()


def test_two_servers_that_share_a_name_conflict_even_with_one_signature() -> None:
    """C4, X-25: `a__b` + `c` is `a` + `b__c`; keeping one would answer calls meant for the other."""
    tools = assemble_tools([mcp("a__b", "c"), mcp("a", "b__c"), mcp("a", "d")])
    assert names(tools) == ["a__d"]
    assert tools.conflicts == ("tool 'a__b__c' is claimed by MCP server 'a' and MCP server 'a__b'",)


def test_two_servers_with_one_signature_share_a_name_where_the_user_asks_for_it() -> None:
    """S002-30: the first server by name answers; another signature stays a conflict."""
    tools = assemble_tools([mcp("a__b", "c", x="string"), mcp("a", "b__c", x="string")], dedupe=True)
    assert [(tool.name, tool.server) for tool in tools.specs] == [("a__b__c", "a")]
    assert tools.conflicts == ()
    different = assemble_tools([mcp("a__b", "c", x="string"), mcp("a", "b__c", x="integer")], dedupe=True)
    assert different.specs == ()
    assert len(different.conflicts) == 1
    mine = assemble_tools(
        [spec("look", "function"), mcp("look", "look"), spec("look", "injector", "x", y="string")], dedupe=True
    )
    assert len(mine.conflicts) == 1


@pytest.mark.parametrize(
    ("source", "claimant"), [("injector", "a context provider"), ("function", "a Python function")]
)
@pytest.mark.parametrize(("name", "ours"), [("shell", "builtin"), ("conv_send", "conv")])
def test_a_built_in_keeps_its_name_and_the_other_is_named(name, ours, source, claimant) -> None:
    """X-26, C5: built-ins always win, and it is said."""
    mine = spec(name, ours)
    tools = assemble_tools([spec(name, source, command="string"), mine])
    assert tools.specs == (mine,)
    assert tools.conflicts == (f"tool {name!r} is claimed by Tertulia itself and {claimant}",)
    with pytest.raises(ToolConflictError):
        tools.require()


def test_each_contested_name_is_told_once_and_all_are_told() -> None:
    """S002-30"""
    kinds = ("string", "integer", "number")
    tools = assemble_tools([mcp("fs", tool, x=kind) for tool in ("read", "write") for kind in kinds])
    assert tools.specs == ()
    assert [sentence.split("'")[1] for sentence in tools.conflicts] == ["fs__read", "fs__write"]
    with pytest.raises(ToolConflictError, match=r"fs__read.*; .*fs__write"):
        tools.require()


@given(mcp_specs)
def test_no_name_is_offered_twice_and_none_is_lost_in_silence(specs) -> None:
    """S000-28, S002-30"""
    tools = assemble_tools(specs)
    assert len(tools.specs) == len(tools.names)
    words = {sentence.split("'")[1] for sentence in tools.conflicts}
    assert tools.names | words == {one.name for one in specs}
    assert not tools.names & words


# ---- digest and encoding


def test_the_digest_covers_names_schemas_and_order() -> None:
    """X-68"""
    here = assemble_tools([spec("one", "function"), spec("two", "function")])
    others = [
        assemble_tools([spec("two", "function"), spec("one", "function")]),
        assemble_tools([spec("one", "function")]),
        assemble_tools([spec("one", "function"), spec("three", "function")]),
        assemble_tools([spec("one", "function"), spec("two", "function", x="string")]),
    ]
    assert len({here.digest, *(other.digest for other in others)}) == 5


class CountingDialect(ItemsDialect):
    """Ours under any name, with a count of how often it was asked."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.asked = 0

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        self.asked += 1
        return super().encode_tools(tools)


def test_a_list_is_encoded_once_for_each_dialect() -> None:
    tools = assemble_tools([spec("shell", command="string")])
    one, other = CountingDialect("one"), CountingDialect("other")
    first = tools.encoded(one)
    assert tools.encoded(one) is first
    assert tools.encoded(other) == first == ItemsDialect().encode_tools(tools.specs)
    assert tools.encoded(other) is not first
    assert (one.asked, other.asked) == (1, 1)


def test_what_was_encoded_is_no_part_of_a_lists_identity() -> None:
    one, other = assemble_tools(every_kind()), assemble_tools(every_kind())
    one.encoded(ItemsDialect())
    assert one == other


def test_no_tools_are_a_list_like_any_other() -> None:
    assert assemble_tools([]) == NO_TOOLS
    assert NO_TOOLS.require() is NO_TOOLS
    assert NO_TOOLS.encoded(ItemsDialect()) == b"[]"
