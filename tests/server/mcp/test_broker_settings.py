"""What a broker is set to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.named_view import NamedView
from tertulia.protocol.storage import HeadersOnly, NoStorage
from tertulia.server.mcp.broker_settings import broker_settings, find_view
from tertulia.session.settings.settings import Settings


def test_it_serves_the_users_servers_from_nobodys_project_and_writes_down_no_bodies() -> None:
    given = Settings(model="openai/x", cwd="/project", mcp_servers={"a": {"command": "a"}}, approval_policy="never")
    made = broker_settings(given, Path("/home/ada"))
    assert (made.cwd, made.project_servers, made.mcp_servers) == ("/home/ada", (), given.mcp_servers)
    assert made.rights().storage_policy == HeadersOnly()
    assert made.rights().approval_policy == given.rights().approval_policy


def test_who_wants_less_written_down_gets_that() -> None:
    assert broker_settings(Settings(storage_policy="none"), Path("/h")).rights().storage_policy == NoStorage()


def test_answers_are_whole_up_to_what_the_user_or_a_view_says() -> None:
    """A default that is meant for our own models is not for programs."""
    assert broker_settings(Settings(), Path("/h")).rights().limits.max_output_bytes is None
    said = broker_settings(Settings(limits={"max_output_bytes": 1_000, "mcp_concurrency": 3}), Path("/h"))
    assert (said.rights().limits.max_output_bytes, said.rights().limits.mcp_concurrency) == (1_000, 3)


def test_a_view_is_found_by_its_name() -> None:
    settings = Settings(mcp_views={"review": {"mcp_tool_allowlist": ["a__b"]}})
    assert find_view(settings, "review").mcp_tool_allowlist == ("a__b",)
    assert find_view(settings, None) == NamedView(name="all")


@pytest.mark.parametrize("name", ["reviews", "", "x" * 10_000])
def test_one_that_there_is_not_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InvalidParamsError, match=r"has review") as caught:
        find_view(Settings(mcp_views={"review": {}}), name)
    assert len(caught.value.message) < 300
    with pytest.raises(InvalidParamsError, match="has none"):
        find_view(Settings(), name)
