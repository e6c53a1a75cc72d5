"""Each setting: what it accepts, what it becomes, what it refuses and how it says so."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import ModelPrice, ModelProvider
from tertulia.policy.approval_policy import NEVER
from tertulia.policy.limits import Limits
from tertulia.protocol.storage import HeadersOnly, Ttl
from tertulia.session.settings.values import check_names, parse_limits, parse_setting
from tests.tables import each_row

PROVIDER = {"base_url": "http://localhost", "wire": "chat"}


class SomeWire:
    def stream(self, request: object) -> None: ...


class Open:
    async def text(self, path: str) -> None: ...

    async def write(self, path: str, text: str) -> None: ...


WIRE = SomeWire()
OPEN = Open()


@each_row(
    ("name", "value", "parsed"),
    [
        ("model", None, None),
        ("model", "openai/gpt-5.2", "openai/gpt-5.2"),
        ("model", WIRE, WIRE),
        ("model_providers", {"p": PROVIDER}, {"p": ModelProvider(base_url="http://localhost", wire="chat")}),
        ("approval_policy", "never", NEVER),
        ("sandbox", "read-only", "read_only"),
        ("network", True, True),
        ("writable_roots", None, None),
        ("writable_roots", ["/b/./c", "/b", "/a/../x"], ("/b", "/x")),
        ("storage_policy", "headers-only", HeadersOnly()),
        ("storage_policy", {"ttl": 5}, Ttl(5)),
        ("mcp_servers", {"fs": {"command": "x"}}, {"fs": {"command": "x"}}),
        ("limits", {"mcp_wait_s": 5}, Limits(mcp_wait_s=5)),
        ("limits", Limits(mcp_wait_s=5), Limits(mcp_wait_s=5)),
        ("shell_environment", {"inherit": "core"}, {"inherit": "core"}),
        ("sandbox_tier", "landlock", "landlock"),
        ("retention", {"max_age_days": 5}, {"max_age_days": 5}),
        ("tui", {"marks": "ascii"}, {"marks": "ascii"}),
        ("model_prices", {"a/b": {"input": 1, "output": 2}}, {"a/b": ModelPrice(1.0, 2.0)}),
        ("durability", "full", "full"),
        ("notify", ["notify-send", "done"], ("notify-send", "done")),
        ("executors", {"codex": {}}, {"codex": {}}),
        ("acp", {"gemini": {}}, {"gemini": {}}),
        ("providers", [WIRE], (WIRE,)),
        ("tools", (len,), (len,)),
        ("buffers", None, None),
        ("buffers", OPEN, OPEN),
        ("include_plan_tool", None, None),
        ("include_apply_patch_tool", False, False),
        ("include_conv_tools", True, True),
        ("tools_web_search_request", True, True),
        ("shell_mode", "with-request", "with_request"),
        ("shell_mode", None, None),
        ("visibility", "subtree", "subtree"),
        ("on_tool_conflict", "skip", "skip"),
        ("close_timeout_s", 3, 3.0),
        ("approval_timeout_s", 0.5, 0.5),
        ("tool_timeout_s", 1, 1.0),
        ("cwd", Path("/srv"), "/srv"),
        ("cwd", None, None),
    ],
)
def test_a_setting_is_parsed_once_and_its_parsed_form_is_stable(name, value, parsed) -> None:
    assert parse_setting(name, value) == parsed
    assert parse_setting(name, parse_setting(name, value)) == parsed


@each_row(
    ("name", "value"),
    [
        ("model", ""),
        ("model", 5),
        ("model", {"name": "x"}),
        ("model_providers", "openai"),
        ("model_providers", {"p": {}}),
        ("approval_policy", "sometimes"),
        ("sandbox", "none"),
        ("network", 1),
        ("network", None),
        ("writable_roots", "/a"),
        ("writable_roots", ["a"]),
        ("writable_roots", [5]),
        ("writable_roots", ["/a\0"]),
        ("storage_policy", "ttl"),
        ("mcp_servers", []),
        ("mcp_servers", {"fs": "npx"}),
        ("mcp_servers", {5: {}}),
        ("limits", 5),
        ("limits", {"mcp_wait_s": 0}),
        ("shell_environment", "all"),
        ("shell_environment", {"inherit": "some"}),
        ("sandbox_tier", "none"),
        ("retention", 30),
        ("model_prices", {"b": {"input": 1, "output": 2}}),
        ("model_prices", {"a/b": {"input": -1, "output": 2}}),
        ("model_prices", {"a/b": {"input": 1, "outputs": 2}}),
        ("model_prices", {"a/b": 3}),
        ("tui", "dark"),
        ("tui", {"color": "dark"}),
        ("tui", {"theme": "blue"}),
        ("tui", {"keys": {"quit": 1}}),
        ("retention", {"days": 5}),
        ("retention", {"max_total_mb": 0}),
        ("durability", "extreme"),
        ("notify", "beep"),
        ("notify", [1]),
        ("executors", {"codex": 1}),
        ("acp", []),
        ("providers", "canvas"),
        ("tools", len),
        ("buffers", "vim"),
        ("include_plan_tool", "yes"),
        ("shell_mode", "zsh"),
        ("shell_mode", 5),
        ("visibility", None),
        ("on_tool_conflict", "warn"),
        ("close_timeout_s", 0),
        ("close_timeout_s", math.inf),
        ("close_timeout_s", math.nan),
        ("close_timeout_s", 86_401),
        ("tool_timeout_s", 10**400),
        ("limits", {"task_timeout_s": 10**400}),
        ("cwd", "/a\udcff"),
        ("approval_timeout_s", True),
        ("tool_timeout_s", "5"),
        ("cwd", "here"),
        ("cwd", "/a\0"),
        ("cwd", 5),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_setting(name, value) -> None:
    with pytest.raises(InvalidParamsError, match=name):
        parse_setting(name, value)


def test_a_root_is_where_its_links_lead(tmp_path) -> None:
    """A7: a link below a root must not pass for a directory below it."""
    (tmp_path / "link").symlink_to("/usr")
    assert parse_setting("writable_roots", [str(tmp_path / "link" / "share")]) == ("/usr/share",)


def test_tables_are_refused_without_their_values() -> None:
    """E6"""
    for name, value in [("mcp_servers", {"fs": "canary"}), ("retention", "canary"), ("notify", "canary")]:
        with pytest.raises(InvalidParamsError) as refusal:
            parse_setting(name, value)
        assert "canary" not in refusal.value.message


def test_limits_not_named_come_from_below() -> None:
    below = Limits(max_conversations=5)
    assert parse_limits({"mcp_wait_s": 1}, below) == Limits(max_conversations=5, mcp_wait_s=1)


def test_a_name_that_is_no_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidParamsError, match=r"f\.toml: there is no setting 'sandbx'; did you mean sandbox\?"):
        check_names(["sandbox", "sandbx"], "f.toml")
    with pytest.raises(InvalidParamsError, match=r"f\.toml: there is no setting 'zzz'; there are acp, "):
        check_names(["zzz"], "f.toml")
    check_names(["sandbox"], "f.toml")


def test_all_unknown_names_of_a_file_are_named_at_once() -> None:
    with pytest.raises(InvalidParamsError) as refused:
        check_names(["sandbox_mode", "model", "file_opener", *(f"x{number}" for number in range(30))], "f.toml")
    lines = refused.value.message.splitlines()
    assert lines[0] == "f.toml: there is no setting 'sandbox_mode'; did you mean sandbox?"
    assert "Codex's screen" in lines[1]
    assert (len(lines), lines[-1]) == (21, "  and 12 more")


@each_row("name", ["providers", "buffers", "cwd", "base_instructions", "user_instructions"])
def test_a_file_holds_no_objects_no_place_and_no_instructions(name) -> None:
    """S000-02: a session has no instructions."""
    with pytest.raises(InvalidParamsError, match="there is no setting"):
        check_names([name], "f.toml")


# ---- executors


@each_row(
    ("table", "sentence"),
    [
        ({"mine": {"comand": ["x"]}}, "executors.mine has no 'comand'; did you mean command?"),
        ({"mine": {}}, "executors.mine.command is missing: the program and its first arguments, as a list"),
        ({"mine": ["x"]}, "executors.mine must be a table"),
        ({"codex": {"output": "xml"}}, "executors.codex.output must be one of text, codex-jsonl, claude-stream-json"),
        ({"history": {"mode": "loud"}}, "executors.history.mode must be one of full"),
        ({"history": {"max_chars": -1}}, "executors.history.max_chars must be a whole number from 0 to"),
    ],
)
def test_an_executor_that_makes_no_sense_is_refused_when_the_settings_are_made(
    table: dict[str, object], sentence: str
) -> None:
    """DESIGN fine print, executors: what was wrong, where, and what to do."""
    with pytest.raises(InvalidParamsError) as refused:
        parse_setting("executors", table)
    assert refused.value.message.startswith(sentence)


def test_executors_are_kept_as_they_were_said() -> None:
    """A later layer may add to a table."""
    table = {"mine": {"command": ["x"]}, "codex": {"args": ["-m", "y"]}, "history": {"mode": "off"}}
    assert parse_setting("executors", table) == table
