"""How the command line speaks of servers."""

from __future__ import annotations

import pytest

from tertulia.apps.mcp_listing import known_servers, named, prospect, redactor_of, transport, where_from
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
    program, address = known_servers(loaded).definitions
    assert (transport(program), transport(address), transport(None)) == ("stdio server", "http example.com", "")


def test_what_can_be_foreseen_is_told(loaded) -> None:
    program, address = known_servers(loaded).definitions
    assert prospect(program, loaded) == ("enabled", None)
    assert prospect(address, loaded)[0] == "failed"


def test_a_place_is_known_for_each(loaded) -> None:
    assert [where_from(each, loaded) for each in known_servers(loaded).definitions] == ["-c", "-c"]


def test_a_server_is_found_by_name_or_the_nearest_is_told(loaded) -> None:
    servers = known_servers(loaded)
    assert named(servers, "web") is servers.definitions[1]
    with pytest.raises(NotFoundError, match="did you mean prog"):
        named(servers, "prg")
    with pytest.raises(NotFoundError, match="`tertulia mcp ls` shows"):
        named(servers, "zzzzzz")


def test_what_they_are_given_is_taken_out_of_what_they_say(loaded) -> None:
    assert SECRET not in redactor_of(loaded, known_servers(loaded)).text(f"bad token {SECRET}")
