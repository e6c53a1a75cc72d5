"""How the setting `hooks` is read: what is accepted, and that a refusal names the key and no value."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.session.hooks.hook_table import MAX_HOOKS, hooks_from_wire
from tests.tables import each_row

SECRET = "hunter2hunter2"


def test_a_table_is_read() -> None:
    table = {"on": ["after_tool", "before_tool"], "command": ["check", SECRET], "tools": ["mcp__*"], "timeout_s": 3}
    (hook,) = hooks_from_wire({"guard": table})
    assert (hook.name, hook.on, hook.timeout_s) == ("guard", ("before_tool", "after_tool"), 3.0)
    assert hook.wants_tool("mcp__a")
    assert not hook.wants_tool("shell")
    assert SECRET not in repr(hook)


COMMAND = {"on": ["before_tool"], "command": ["x"]}


@each_row(
    "name, table, why",
    [
        ("a b", COMMAND, "a name has at most"),
        ("x", {"on": ["before_tool"]}, "either `command`"),
        ("x", {**COMMAND, "function": print}, "either `command`"),
        ("x", {"on": ["before_tool"], "function": SECRET}, "must be a function"),
        ("x", {**COMMAND, "on": []}, "must be a list of some of before_tool"),
        ("x", {**COMMAND, "on": "before_tool"}, "must be a list of some of"),
        ("x", {**COMMAND, "command": SECRET}, "must be a list of strings"),
        ("x", {**COMMAND, "command": [SECRET, 3]}, "must be a list of strings"),
        ("x", {**COMMAND, "tools": []}, "x.tools must be a list of strings"),
        ("x", {**COMMAND, "timeout_s": 61}, "up to 60"),
        ("x", {**COMMAND, "timeout": 1}, "did you mean timeout_s"),
    ],
)
def test_what_is_wrong_is_refused_with_its_key(name: str, table: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        hooks_from_wire({name: table})
    assert why in refused.value.message
    assert SECRET not in refused.value.message


def test_there_are_not_too_many() -> None:
    with pytest.raises(InvalidParamsError, match="at most 64"):
        hooks_from_wire({f"h{number}": COMMAND for number in range(MAX_HOOKS + 1)})
