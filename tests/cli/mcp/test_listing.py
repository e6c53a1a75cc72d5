"""How the command line speaks of servers."""

from __future__ import annotations

import pytest

from tertulia.cli.mcp.listing import (
    definition_source,
    find_server,
    load_configured_servers,
    predicted_status,
    server_redactor,
    transport_label,
)
from tertulia.errors import NotFoundError
from tertulia.session.settings.settings import LoadedSettings, load_settings

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
    assert [definition_source(each, loaded) for each in load_configured_servers(loaded).definitions] == ["-c", "-c"]


def test_a_server_is_found_by_name_or_the_nearest_is_told(loaded) -> None:
    servers = load_configured_servers(loaded)
    assert find_server(servers, "web") is servers.definitions[1]
    with pytest.raises(NotFoundError, match="did you mean prog"):
        find_server(servers, "prg")
    with pytest.raises(NotFoundError, match="`tertulia mcp ls` shows"):
        find_server(servers, "zzzzzz")


def test_what_they_are_given_is_taken_out_of_what_they_say(loaded) -> None:
    assert SECRET not in server_redactor(loaded, load_configured_servers(loaded)).text(f"bad token {SECRET}")
