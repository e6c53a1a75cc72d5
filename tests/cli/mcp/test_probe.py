"""Servers started for a look: all at once, and none is left."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

from msgspec.structs import replace

from tertulia.cli.mcp.listing import load_configured_servers, server_redactor
from tertulia.cli.mcp.probe import ProbeResult, probe_servers
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.session.settings.settings import LoadedSettings, Settings, load_settings
from tests.mcp.fakes import bare, hostile
from tests.mcp.fakes.number import lives


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def loaded_with(tmp_path: Path, **servers: tuple[str, ...]) -> LoadedSettings:
    loaded = load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    tables = {name: {"command": argv[0], "args": argv[1:], "start": "lazy"} for name, argv in servers.items()}
    return replace(loaded, settings=Settings(cwd=str(tmp_path), mcp_servers=tables))


def looked_at(loaded: LoadedSettings, screen: io.StringIO) -> list[ProbeResult]:
    servers = load_configured_servers(loaded)
    notes = TerminalOutput(screen, {})
    return asyncio.run(probe_servers(servers.definitions, loaded, server_redactor(loaded, servers), notes))


def test_each_is_started_and_none_is_left(tmp_path) -> None:
    """Lazy ones too; somebody who watches sees whom all wait for."""
    records = [tmp_path / "a.txt", tmp_path / "b.txt"]
    screen = Screen()
    loaded = loaded_with(
        tmp_path, a=bare("--record", str(records[0])), b=bare("--record", str(records[1])), c=hostile("dies-at-start")
    )
    found = looked_at(loaded, screen)
    assert [(each.name, each.status) for each in found] == [("a", "ready"), ("b", "ready"), ("c", "failed")]
    assert found[2].tools == ()
    for record in records:
        process = int(record.read_text().split()[1])
        assert not lives(process)
    assert "starting" in screen.getvalue()
    assert "(1 of 3)" in screen.getvalue()
    assert not (loaded.environment.home / "mcp-catalogue").exists()


def test_nobody_watching_means_no_progress(tmp_path) -> None:
    pipe = io.StringIO()
    assert [each.status for each in looked_at(loaded_with(tmp_path, a=bare()), pipe)] == ["ready"]
    assert pipe.getvalue() == ""
