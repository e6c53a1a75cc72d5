"""Where an editor's sessions come from, on this command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.cli.global_flags import GlobalFlags
from tertulia.cli.serve.startup import build_session_factory
from tertulia.protocol.conversation_fields import sandbox_from_wire
from tertulia.server.session_factory import SessionRequest
from tertulia.session.host import Host


async def test_flags_hold_in_every_directory_and_projects_take_away(tmp_path: Path) -> None:
    """A8, issue 10 (4, 5): the settings are those of the directory that the client names."""
    (tmp_path / ".tertulia").mkdir()
    (tmp_path / ".tertulia" / "config.toml").write_text('sandbox = "read-only"\nmodel = "other/model"\n')
    common_flags = GlobalFlags()
    common_flags.take("model", "scripted/tour")
    loaded = common_flags.load()
    host = Host(loaded.settings)
    opened = await build_session_factory(common_flags, loaded, host).start(SessionRequest(str(tmp_path)))
    terms = opened.session.parts.conversations.root.terms
    assert (terms.rights.sandbox, terms.cwd, terms.wire.name) == ("read_only", str(tmp_path), "scripted/tour")
    assert any("model is ignored" in remark for remark in opened.remarks)
    await host.close()


async def test_without_mcp_no_directory_brings_a_server(tmp_path: Path) -> None:
    """Issue 19, 11: `--no-mcp` holds for every session of an editor."""
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "false"}}}')
    for flags, expected in ((), ["theirs"]), (("no_mcp",), []):
        common_flags = GlobalFlags()
        common_flags.take("model", "scripted/tour")
        for flag in flags:
            common_flags.take(flag, True)
        loaded = common_flags.load()
        host = Host(loaded.settings)
        opened = await build_session_factory(common_flags, loaded, host).start(SessionRequest(str(tmp_path)))
        assert [server["name"] for server in opened.session.info.mcp] == expected
        await host.close()


async def test_any_mode_can_be_chosen_where_no_setting_says_how_far_it_goes(tmp_path: Path) -> None:
    """Issue 10 (4): modes read-only, workspace-write and full; the usual one holds until a person chooses."""
    common_flags = GlobalFlags()
    common_flags.take("model", "scripted/tour")
    loaded = common_flags.load()
    host = Host(loaded.settings)
    opened = await build_session_factory(common_flags, loaded, host, open_ended=True).start(
        SessionRequest(str(tmp_path))
    )
    root = opened.session.parts.conversations.root
    assert (root.terms.rights.sandbox, root.ceiling.sandbox) == ("workspace_write", "danger_full_access")
    texts = [item.text for item in root.history.snapshot() if "<environment_context>" in item.text]
    assert len(texts) == 1
    assert "danger" not in texts[0], "it is never told that it has more"
    await host.close()


@pytest.mark.parametrize("most", ["read-only", "workspace-write"])
@pytest.mark.parametrize("by", ["a flag", "the project"])
async def test_where_a_setting_says_how_far_it_goes_nothing_wider_can_be_chosen(
    tmp_path: Path, by: str, most: str
) -> None:
    """Issue 10 (4), A8."""
    common_flags = GlobalFlags()
    common_flags.take("model", "scripted/tour")
    if by == "a flag":
        common_flags.take("sandbox", most)
    else:
        (tmp_path / ".tertulia").mkdir()
        (tmp_path / ".tertulia" / "config.toml").write_text(f'sandbox = "{most}"\n')
    loaded = common_flags.load()
    host = Host(loaded.settings)
    opened = await build_session_factory(common_flags, loaded, host, open_ended=True).start(
        SessionRequest(str(tmp_path))
    )
    root = opened.session.parts.conversations.root
    assert {root.terms.rights.sandbox, root.ceiling.sandbox} == {sandbox_from_wire(most)}
    await host.close()
