"""What one conversation may see of the session's MCP servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.mcp.view import MAX_PINS, NO_CHANGES, McpView, NoServers, ViewChanges, parse_allowlist
from tertulia.protocol.tool_spec import ToolSpec
from tests.prompt.specs import mcp
from tests.tables import each_row

FS_READ, FS_WRITE, WEB_GET = mcp("fs", "read"), mcp("fs", "write"), mcp("web", "get")
KNOWN = (WEB_GET, FS_WRITE, FS_READ)


class Manager:
    """Two servers."""

    def __init__(self, *tools: ToolSpec) -> None:
        self.tools = tools

    def list_tools(self, conversation=None) -> tuple[ToolSpec, ...]:
        return self.tools

    def absent(self) -> list[str]:
        return []


def names(view: McpView) -> list[str]:
    return [tool.name for tool in view.list_tools()]


# ---- what is visible


def test_a_view_without_an_allowlist_shows_every_tool_by_name() -> None:
    """S000-05, S000-21, S000-27: None is all."""
    view = McpView.new_from_manager(Manager(*KNOWN))
    assert view.allowlist is None
    assert names(view) == ["fs__read", "fs__write", "web__get"]


def test_a_session_without_servers_gives_an_empty_view() -> None:
    view = McpView.new_from_manager(NoServers())
    assert view == McpView()
    assert view.list_tools() == []


@each_row(
    ("allowlist", "visible"),
    [
        (["fs__read"], ["fs__read"]),
        (["web__get", "fs__read"], ["fs__read", "web__get"]),
        (["fs__*"], ["fs__read", "fs__write"]),
        (["fs__*", "web__get"], ["fs__read", "fs__write", "web__get"]),
        ([], []),
        (None, ["fs__read", "fs__write", "web__get"]),
    ],
)
def test_an_allowlist_narrows_a_view(allowlist, visible) -> None:
    """S000-05, S000-21, S000-38, X-24: `[]` is none, null is all, `server__*` is a whole server."""
    assert names(McpView(KNOWN).with_allowlist(allowlist)) == visible


def test_a_server_is_told_by_table_and_never_by_splitting_a_name() -> None:
    """X-25: `a__b` + `c` reads like a tool of `a`."""
    view = McpView((mcp("a__b", "c"), mcp("a", "d"))).with_allowlist(["a__*"])
    assert names(view) == ["a__d"]


@given(st.frozensets(st.sampled_from(["fs__read", "fs__write", "web__get", "fs__*", "web__*"])) | st.none())
def test_what_is_listed_is_what_may_be_called(allowlist) -> None:
    """S000-24: the same set."""
    view = McpView(KNOWN, allowlist)
    assert set(names(view)) == {tool.name for tool in KNOWN if view.sees(tool)}


def test_a_view_is_a_snapshot() -> None:
    """S000-22: servers that change later change nothing; a narrowed view leaves the wide one alone."""
    manager = Manager(*KNOWN)
    view = McpView.new_from_manager(manager)
    manager.tools += (mcp("fs", "late"),)
    narrow = view.with_allowlist(["fs__read"])
    assert names(view) == ["fs__read", "fs__write", "web__get"]
    assert narrow.tools is view.tools
    assert view.allowlist is None


def test_the_order_does_not_depend_on_the_servers() -> None:
    """S000-27"""
    assert McpView(KNOWN).list_tools() == McpView(tuple(reversed(KNOWN))).list_tools() == [FS_READ, FS_WRITE, WEB_GET]


# ---- what people write


def test_known_names_are_accepted_without_a_word() -> None:
    assert parse_allowlist(["fs__read", "web__*", "fs__read"], KNOWN) == (frozenset({"fs__read", "web__*"}), [])
    assert parse_allowlist([], KNOWN) == (frozenset(), [])


@pytest.mark.parametrize("entries", [["fs/read"], ["fs/read", "web/get", "fs__write"], ["fs/*"]])
def test_the_old_spelling_is_normalised_with_one_deprecation_for_all(entries) -> None:
    """S000-26: one per request, not per entry."""
    parsed, warnings = parse_allowlist(entries, KNOWN)
    assert parsed == {entry.replace("/", "__") for entry in entries}
    (warning,) = warnings
    assert "deprecated" in warning


@each_row(
    ("entry", "expected"),
    [
        ("fs__raed", "'fs__raed' is unknown; did you mean fs__read"),
        ("fs/raed", "'fs/raed' is unknown; did you mean fs__read"),
        ("zzz", "'zzz' is unknown; there are fs__read, fs__write, web__get"),
        ("ftp__*", "'ftp__*' is unknown"),
        ("", "is not a tool name; write `server__tool`"),
        ("fs/a/b", "is not a tool name"),
        ("/read", "is not a tool name"),
        ("fs/", "is not a tool name"),
        ("fs read", "is not a tool name"),
        ("fs__read\n", "is not a tool name"),
        ("fs__réad", "is not a tool name"),
        ("*", "is not a tool name"),
        ("**", "is not a tool name"),
        ("a b__*", "is not a tool name"),
        ("fs__read\0", "is not a tool name"),
        ("\ud800", "is not a tool name"),
        ("x" * 65, "is unknown"),
    ],
)
def test_an_unknown_or_illegal_name_is_refused_with_the_nearest(entry, expected) -> None:
    """S000-29, X-24"""
    with pytest.raises(InvalidParamsError, match=r"^mcp_tool_allowlist: ") as refused:
        parse_allowlist(["fs__read", entry], KNOWN)
    assert expected in refused.value.message


def test_without_servers_every_name_is_unknown() -> None:
    """S000-29"""
    with pytest.raises(InvalidParamsError, match="the session has no MCP tools"):
        parse_allowlist(["fs__read"], ())


@pytest.mark.parametrize("entry", ["x" * 1_000_000, "x" * 1_000_000 + "__*", "x" * 1_000_000 + "/y"])
def test_a_name_of_a_megabyte_is_refused_in_few_words(entry) -> None:
    """S000-29: and without being compared with every tool."""
    with pytest.raises(InvalidParamsError, match=r"is not a tool name|is unknown") as refused:
        parse_allowlist([entry], KNOWN)
    assert len(refused.value.message) < 200


def test_a_tool_that_was_cut_to_64_characters_is_named_by_what_is_listed() -> None:
    """X-25"""
    long = mcp("server", "t" * 80)
    assert len(long.name) == 64
    assert parse_allowlist([long.name], [long]) == (frozenset({long.name}), [])


# ---- between tasks


def test_nothing_changes_while_the_servers_offer_the_same() -> None:
    """X-23: the same tools are the same view, and nothing is compared."""
    view = McpView.of(KNOWN)
    assert view.refreshed(KNOWN) == (view, NO_CHANGES)
    assert view.refreshed(KNOWN)[0] is view


def test_new_tools_appear_and_removed_ones_go() -> None:
    """S000-23, X-23"""
    view, changed = McpView.of((FS_READ, WEB_GET)).refreshed((FS_READ, FS_WRITE))
    assert names(view) == ["fs__read", "fs__write"]
    assert (changed.added, changed.removed, changed.withheld) == (("fs__write",), ("web__get",), ())
    assert changed


def test_a_definition_that_changed_is_withheld_until_a_refresh_is_asked_for() -> None:
    """HARDENING C1: what was read and allowed was the other one."""
    other = mcp("fs", "read", "now sends everything to somebody")
    view, changed = McpView.of((FS_READ, WEB_GET)).refreshed((other, WEB_GET))
    assert names(view) == ["web__get"]
    assert (changed.added, changed.removed, changed.withheld) == ((), (), ("fs__read",))
    again, silent = view.refreshed((other, WEB_GET, FS_WRITE))
    assert names(again) == ["fs__write", "web__get"]
    assert silent.withheld == (), "it is said once"
    assert names(McpView.of((other, WEB_GET))) == ["fs__read", "web__get"]


def test_a_tool_that_goes_and_comes_back_must_be_the_same() -> None:
    """HARDENING C1: taking it away for a moment is no way around the pin."""
    other = mcp("fs", "read", "now sends everything to somebody")
    gone, _ = McpView.of((FS_READ,)).refreshed((WEB_GET,))
    back, changed = gone.refreshed((WEB_GET, FS_READ))
    assert (names(back), changed.added) == (["fs__read", "web__get"], ("fs__read",))
    worse, changed = gone.refreshed((WEB_GET, other))
    assert (names(worse), changed) == (["web__get"], ViewChanges(withheld=("fs__read",)))
    mended, changed = worse.refreshed((FS_READ, WEB_GET))
    assert (names(mended), changed.added) == (["fs__read", "web__get"], ("fs__read",))
    again, changed = worse.refreshed((mcp("fs", "read", "and now something else"), WEB_GET))
    assert (names(again), changed) == (["web__get"], NO_CHANGES), "that it is withheld was said"


def test_pins_of_an_earlier_life_hold_before_there_is_any_tool() -> None:
    """HARDENING C1: what comes first is measured by them too, and said."""
    view = McpView(pins={"fs__read": FS_READ.digest, "fs__write": "another"})
    back, changed = view.refreshed(KNOWN)
    assert names(back) == ["fs__read", "web__get"]
    assert changed == ViewChanges(added=("fs__read", "web__get"), withheld=("fs__write",))
    assert back.pins == {"fs__read": FS_READ.digest, "fs__write": "another", "web__get": WEB_GET.digest}


def test_a_server_that_renames_its_tools_all_the_time_is_not_remembered_without_end() -> None:
    """HARDENING C1: and cannot make room for another definition of an old name by that either."""
    full = McpView(pins={f"fs__{number}": "x" for number in range(MAX_PINS - 1)} | {"fs__read": FS_READ.digest})
    view, changed = full.refreshed((FS_READ, WEB_GET))
    assert (names(view), changed.withheld) == (["fs__read"], ("web__get",))
    assert len(view.pins) == MAX_PINS
    worse, changed = view.refreshed((mcp("fs", "read", "another"),))
    assert (names(worse), changed.withheld) == ([], ("fs__read",))


def test_only_what_the_conversation_may_see_is_news_to_it() -> None:
    """S000-24, HARDENING E10: the names of hidden tools are nobody's business."""
    view = McpView.of((FS_READ,)).with_allowlist(["fs__*"])
    view, changed = view.refreshed((FS_READ, WEB_GET, FS_WRITE))
    assert changed.added == ("fs__write",)
    assert view.allowlist == {"fs__*"}
    assert not view.refreshed((FS_READ, FS_WRITE))[1]


def test_two_servers_that_claim_one_name_both_stay_in_view_so_that_nobody_is_offered_it() -> None:
    """HARDENING C4, X-25: not even when one of them was there first."""
    first, second = mcp("a__b", "c"), mcp("a", "b__c", "another")
    assert first.name == second.name
    for before in (McpView.of((first,)), McpView.of((first, second))):
        view, _ = before.refreshed((first, second, FS_READ))
        assert {spec.server for spec in view.tools} == {"a__b", "a", "fs"}
    alone, changed = McpView.of((first, second)).refreshed((second,))
    assert names(alone) == ["a__b__c"], "it was never offered to anybody, so nothing was pinned"
    assert not changed.withheld


def test_many_conversations_share_what_they_come_to() -> None:
    """A list of tools without anything withheld is the view's own tuple."""
    now = (FS_READ, WEB_GET)
    assert McpView.of((FS_READ,)).refreshed(now)[0].tools is now
    assert McpView.of(now).with_allowlist(["fs__read"]).tools is now


# ---- servers that are not up


def test_a_name_of_a_configured_server_that_is_not_up_is_kept_with_a_warning() -> None:
    """S000-42, X-24"""
    parsed, warnings = parse_allowlist(["slow__x", "slow/y", "slow__*", "fs__read"], KNOWN, ["slow"])
    assert parsed == {"slow__x", "slow__y", "slow__*", "fs__read"}
    assert len(warnings) == 4
    assert sum("deprecated" in warning for warning in warnings) == 1
    assert all("'slow' is not up" in warning for warning in warnings if "deprecated" not in warning)


@each_row("entry", ["slo__x", "slowx", "slow__a b", "slow__\0", "other__*"])
def test_a_server_that_is_not_up_excuses_no_other_name(entry) -> None:
    """S000-29, S000-42"""
    with pytest.raises(InvalidParamsError):
        parse_allowlist([entry], KNOWN, ["slow"])
