"""Views with names: what they allow is checked when the settings are read."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.mcp.view import NamedView, view_from_wire
from tertulia.policy.limits import NO_LIMITS
from tests.tables import each_row


def test_a_view_is_read() -> None:
    table = {
        "mcp_tool_allowlist": ["fs__read", "git__*", "time/now"],
        "limits": {"mcp_concurrency": 2},
        "approval": "prompt",
    }
    view = view_from_wire("coder", table)
    assert view.mcp_tool_allowlist == ("fs__read", "git__*", "time__now")
    assert (view.name, view.limits.mcp_concurrency, view.limits.mcp_wait_s, view.approval) == (
        "coder",
        2,
        None,
        "prompt",
    )


def test_an_empty_table_narrows_nothing() -> None:
    assert view_from_wire("all", {}) == NamedView(name="all", limits=NO_LIMITS)
    assert view_from_wire("none", {"mcp_tool_allowlist": []}).mcp_tool_allowlist == ()


@each_row(
    ("name", "table", "expected"),
    [
        ("a b", {}, "mcp_views: 'a b' cannot be the name of a view"),
        ("v", [], "mcp_views.v must be a table"),
        ("v", {"allowlist": []}, "mcp_views.v: there is no setting 'allowlist'; did you mean mcp_tool_allowlist?"),
        ("v", {"zz": 1}, "there is no setting 'zz'; there are approval, limits, mcp_tool_allowlist"),
        ("v", {"mcp_tool_allowlist": "fs__read"}, "mcp_views.v.mcp_tool_allowlist must be a list of tools"),
        ("v", {"mcp_tool_allowlist": ["a b"]}, "'a b' is not a tool name; write `server__tool` or `server__*`"),
        ("v", {"mcp_tool_allowlist": ["fs*"]}, "'fs*' is not a tool name"),
        ("v", {"mcp_tool_allowlist": [5]}, "5 is not a tool name"),
        ("v", {"limits": []}, "mcp_views.v.limits must be a table"),
        ("v", {"limits": {"mcp_wait": 1}}, "mcp_views.v.limits has no 'mcp_wait'; did you mean mcp_wait_s?"),
        ("v", {"approval": "yes"}, "mcp_views.v.approval must be one of auto, prompt, approve"),
    ],
)
def test_a_mistake_is_named(name, table, expected) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        view_from_wire(name, table)
    assert expected in caught.value.message
