"""Settings made in Python."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.approval_policy import NEVER, ON_REQUEST, UNTRUSTED
from tertulia.policy.limits import Limits
from tertulia.policy.rights import Rights, leq
from tertulia.protocol.storage import Full, HeadersOnly, Ttl
from tertulia.session.settings import values
from tertulia.session.settings.settings import Settings
from tests.tables import each_row


def test_the_defaults_are_those_of_the_design() -> None:
    settings = Settings()
    rights = settings.rights
    assert (rights.sandbox, rights.approval_policy, rights.network) == ("workspace_write", ON_REQUEST, False)
    assert rights.storage_policy == Full()
    assert (settings.close_timeout_s, settings.approval_timeout_s, settings.tool_timeout_s) == (10, 300, 300)
    assert settings.on_tool_conflict == "error"
    assert rights.limits == Limits()


def test_a_session_holds_no_instructions() -> None:
    """S000-02"""
    named = [name for name in Settings.__struct_fields__ if "instruction" in name or "allowlist" in name]
    assert named == ["project_instructions"]
    assert Settings().project_instructions is False
    with pytest.raises(TypeError, match="base_instructions"):
        Settings(base_instructions="x")  # type: ignore[call-arg]


def test_values_are_accepted_as_objects_and_as_clients_spell_them() -> None:
    spelled = Settings(sandbox="read-only", approval_policy="untrusted", storage_policy="headers_only")
    objects = Settings(sandbox="read_only", approval_policy=UNTRUSTED, storage_policy=HeadersOnly())
    assert spelled == objects
    assert Settings(storage_policy={"ttl": 60}).rights.storage_policy == Ttl(60)
    assert Settings(limits={"mcp_wait_s": 5}) == Settings(limits=Limits(mcp_wait_s=5))


@each_row("field", ["sandbox", "approval_policy", "storage_policy", "limits", "mcp_servers", "cwd"])
def test_a_wrong_value_is_refused_by_name(field) -> None:
    with pytest.raises(InvalidParamsError, match=field):
        Settings(**{field: "nonsense"})


def test_every_setting_has_its_parser_and_every_parser_its_setting() -> None:
    assert set(values._PARSERS) == set(Settings.__struct_fields__)


def test_settings_changed_are_checked_again() -> None:
    settings = Settings(sandbox="read-only")
    assert replace(settings, network=True).sandbox == "read_only"
    with pytest.raises(InvalidParamsError, match="network"):
        replace(settings, network="on")


def test_every_right_comes_from_the_setting_of_its_name() -> None:
    """S000-16; S000-02: the session has no part in which MCP tools a conversation sees."""
    settings = Settings(
        approval_policy="never",
        sandbox="danger-full-access",
        network=True,
        allow_git=True,
        writable_roots=["/srv"],
        storage_policy="none",
        include_plan_tool=False,
        include_apply_patch_tool=False,
        include_conv_tools=False,
        tools_web_search_request=False,
        include_fetch_tool=False,
        shell_mode="none",
        visibility="subtree",
        on_restart="continue",
        limits={"max_conversations": 5},
    )
    assert (
        settings.rights
        == settings.defaults
        == Rights(
            approval_policy=NEVER,
            sandbox="danger_full_access",
            network=True,
            allow_git=True,
            writable_roots=("/srv",),
            storage_policy=values.parse_setting("storage_policy", "none"),
            mcp_tool_allowlist=None,
            include_plan_tool=False,
            include_apply_patch_tool=False,
            include_conv_tools=False,
            tools_web_search_request=False,
            include_fetch_tool=False,
            shell=False,
            visibility="subtree",
            on_restart="continue",
            limits=Limits(max_conversations=5),
        )
    )


def test_a_switch_that_nobody_set_is_allowed_and_has_its_usual_default() -> None:
    """X-20: conv tools are on by default. Web search must be asked for."""
    settings = Settings()
    switches = ("include_plan_tool", "include_apply_patch_tool", "include_conv_tools", "tools_web_search_request")
    assert [getattr(settings.rights, name) for name in switches] == [True, True, True, True]
    assert [getattr(settings.defaults, name) for name in switches] == [True, True, True, False]
    assert settings.rights.shell


def test_tasks_that_a_crash_cut_are_closed_unless_one_asks_and_close_takes_that_from_all() -> None:
    """Issue 26, 2."""
    chosen = [(s.rights.on_restart, s.defaults.on_restart) for s in (Settings(), Settings(on_restart="continue"))]
    assert chosen == [("continue", "close"), ("continue", "continue")]
    assert Settings(on_restart="close").rights.on_restart == "close"


def test_a_switch_that_is_set_holds_for_those_who_say_nothing() -> None:
    assert Settings(tools_web_search_request=True).defaults.tools_web_search_request
    assert not Settings(include_plan_tool=False).defaults.include_plan_tool


@pytest.mark.parametrize("search", [None, True, False])
def test_the_default_is_never_above_the_ceiling(search) -> None:
    settings = Settings(tools_web_search_request=search)
    assert leq(settings.defaults, settings.rights)


def test_settings_show_no_secret() -> None:
    """E6"""
    settings = Settings(
        model="openai/gpt",
        mcp_servers={"fs": {"command": "x", "env": {"KEY": "canary-1"}}},
        model_providers={"p": {"base_url": "https://me:canary-2@host", "wire": "chat"}},
        shell_environment={"set": {"TOKEN": "canary-3"}},
        notify=["curl", "https://host/canary-4"],
    )
    shown = repr(settings)
    assert "canary" not in shown
    assert shown.startswith("Settings(model='openai/gpt', model_providers=<p>, approval_policy=")
    assert "mcp_servers=<fs>" in shown
    assert "notify=<2>" in shown


def test_settings_do_not_share_their_tables_with_whoever_made_them() -> None:
    servers = {"fs": {"command": "x"}}
    settings = Settings(mcp_servers=servers)
    servers["git"] = {"command": "y"}
    assert settings.mcp_servers == {"fs": {"command": "x"}}
    assert Settings().mcp_servers == {}
