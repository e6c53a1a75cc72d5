"""Where an editor's sessions come from, on this command line."""

from __future__ import annotations

from pathlib import Path

from tertulia.apps.global_flags import Given
from tertulia.apps.houses import house_of
from tertulia.server.as_acp_house import Wish
from tertulia.session.host import Host


async def test_flags_hold_in_every_directory_and_projects_take_away(tmp_path: Path) -> None:
    """A8, issue 10 (4, 5): the settings are those of the directory that the client names."""
    (tmp_path / ".tertulia").mkdir()
    (tmp_path / ".tertulia" / "config.toml").write_text('sandbox = "read-only"\nmodel = "other/model"\n')
    given = Given()
    given.take("model", "scripted/tour")
    loaded = given.load()
    host = Host(loaded.settings)
    opened = await house_of(given, loaded, host).begin(Wish(str(tmp_path)))
    terms = opened.session.parts.conversations.root.terms
    assert (terms.rights.sandbox, terms.cwd, terms.wire.name) == ("read_only", str(tmp_path), "scripted/tour")
    assert any("model is ignored" in remark for remark in opened.remarks)
    await host.close()
