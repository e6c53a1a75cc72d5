"""How the command line speaks of servers."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.cli.mcp.status import (
    ProbeResult,
    definition_source,
    find_server,
    load_configured_servers,
    predicted_status,
    probe_servers,
    server_redactor,
    transport_label,
)
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import NotFoundError
from tertulia.session.settings.settings import LoadedSettings, Settings, load_settings
from tests.mcp.fakes import bare, hostile
from tests.mcp.fakes.number import lives

SECRET = "hunter2hunter2"


@pytest.fixture
def loaded(tmp_path) -> LoadedSettings:
    overrides = [
        f'mcp_servers.prog={{command="/opt/x/server", args=["--token", "{SECRET}"]}}',
        'mcp_servers.web={url="https://example.com:99/mcp?key=k", bearer_token_env_var="NOT_SET"}',
    ]
    return load_settings(cwd=tmp_path, overrides=overrides, environ={"HOME": str(tmp_path)})


def test_a_transport_is_told_in_two_words_without_what_it_is_given(loaded) -> None:
    program, address = load_configured_servers(loaded).definitions
    assert (transport_label(program), transport_label(address), transport_label(None)) == (
        "stdio server",
        "http example.com",
        "",
    )


def test_what_can_be_foreseen_is_told(loaded) -> None:
    program, address = load_configured_servers(loaded).definitions
    assert predicted_status(program, loaded) == ("enabled", None)
    assert predicted_status(address, loaded)[0] == "failed"


def test_a_place_is_known_for_each(loaded) -> None:
    assert [definition_source(server, loaded) for server in load_configured_servers(loaded).definitions] == ["-c", "-c"]


def test_a_server_is_found_by_name_or_the_nearest_is_told(loaded) -> None:
    servers = load_configured_servers(loaded)
    assert find_server(servers, "web") is servers.definitions[1]
    with pytest.raises(NotFoundError, match="did you mean prog"):
        find_server(servers, "prg")
    with pytest.raises(NotFoundError, match="`tertulia mcp ls` shows"):
        find_server(servers, "zzzzzz")


def test_what_they_are_given_is_taken_out_of_what_they_say(loaded) -> None:
    assert SECRET not in server_redactor(loaded, load_configured_servers(loaded)).text(f"bad token {SECRET}")


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
    assert [(server.name, server.status) for server in found] == [("a", "ready"), ("b", "ready"), ("c", "failed")]
    assert found[2].tools == ()
    for record in records:
        process = int(record.read_text().split()[1])
        assert not lives(process)
    assert "starting" in screen.getvalue()
    assert "(1 of 3)" in screen.getvalue()
    assert not (loaded.environment.home / "mcp-catalogue").exists()


def test_nobody_watching_means_no_progress(tmp_path) -> None:
    pipe = io.StringIO()
    assert [event.status for event in looked_at(loaded_with(tmp_path, a=bare()), pipe)] == ["ready"]
    assert pipe.getvalue() == ""
