"""What a server is given: what its definition names and the usual few, with secrets known and unseen."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import McpError
from tertulia.mcp.config.launch import (
    DEFAULT_VARIABLES,
    Launch,
    is_secret,
    placed,
    resolve_launch,
    secrets_in_definition,
    secrets_in_launch,
)
from tertulia.mcp.config.server_table import server_from_wire
from tests.tables import each_row

VARIABLES = {
    "HOME": "/home/ana",
    "PATH": "/bin",
    "OPENAI_API_KEY": "not-for-servers",
    "SSH_AUTH_SOCK": "/run/agent",
    "GH_TOKEN": "ghs-value-of-it",
    "PLAIN": "p",
}


def launch(table: dict[str, Any], variables: dict[str, str] | None = None, workspace: str | None = None) -> Launch:
    definition = server_from_wire("x", table, origin="user")
    return resolve_launch(definition, VARIABLES if variables is None else variables, workspace)


def test_a_program_gets_what_is_named_and_the_usual_few() -> None:
    """C13: nothing else of our environment."""
    made = launch({"command": "npx", "args": ["-y", "s"], "env": {"MODE": "a"}, "env_vars": ["GH_TOKEN", "NOT_THERE"]})
    assert made.argv == ("npx", "-y", "s")
    assert made.environment == {"HOME": "/home/ana", "PATH": "/bin", "MODE": "a", "GH_TOKEN": "ghs-value-of-it"}
    assert set(made.environment) - {"MODE", "GH_TOKEN"} <= set(DEFAULT_VARIABLES)


def test_what_is_written_wins_over_what_is_inherited() -> None:
    made = launch({"command": "x", "env": {"PATH": "/own", "PLAIN": "mine"}, "env_vars": ["PLAIN"]})
    assert (made.environment["PATH"], made.environment["PLAIN"]) == ("/own", "mine")


def test_home_is_found_in_the_variables() -> None:
    made = launch({"command": "~/bin/server", "cwd": "~"})
    assert (made.argv, made.cwd) == (("/home/ana/bin/server",), "/home/ana")
    assert launch({"command": "~/x", "cwd": "~other/x"}, {}).cwd == "~other/x"


def test_without_a_directory_it_starts_where_the_work_is() -> None:
    assert launch({"command": "x"}, workspace="/repo").cwd == "/repo"
    assert launch({"command": "x"}).cwd == "/home/ana"
    assert launch({"command": "x"}, {}).cwd == "/"


def test_headers_are_looked_up() -> None:
    table = {
        "url": "https://x/mcp",
        "bearer_token_env_var": "GH_TOKEN",
        "http_headers": {"X-A": "1"},
        "env_http_headers": {"X-B": "PLAIN"},
    }
    made = launch(table, {**VARIABLES, "GH_TOKEN": "tok\n"})
    assert made.headers == {"X-A": "1", "X-B": "p", "Authorization": "Bearer tok"}
    assert (made.transport, made.url, made.environment) == ("http", "https://x/mcp", {})


@pytest.mark.parametrize(
    ("table", "variable", "setting"),
    [
        ({"url": "https://x/", "bearer_token_env_var": "MY_PAT"}, "MY_PAT", "bearer_token_env_var"),
        ({"url": "https://x/", "env_http_headers": {"A": "MY_PAT"}}, "MY_PAT", "env_http_headers"),
        ({"command": "x", "env_vars": ["OTHER_TOKEN"]}, "OTHER_TOKEN", "env_vars"),
    ],
)
def test_an_unset_secret_is_named_with_its_setting(table, variable, setting) -> None:
    """Bad input: secret env var unset."""
    with pytest.raises(McpError) as caught:
        launch(table)
    assert caught.value.message == f"x: the variable {variable} is not set; mcp_servers.x.{setting} names it"


def test_an_empty_token_counts_as_unset() -> None:
    with pytest.raises(McpError, match="EMPTY is not set"):
        launch({"url": "https://x/", "bearer_token_env_var": "EMPTY"}, {"EMPTY": " \n"})


def test_a_token_of_two_lines_is_no_header_and_is_not_repeated() -> None:
    with pytest.raises(McpError, match="cannot be a header") as caught:
        launch({"url": "https://x/", "bearer_token_env_var": "T"}, {"T": "canary\r\nX: y"})
    assert "canary" not in caught.value.message


BASE: dict[str, Any] = {"command": "x", "args": ["a"], "env": {"A": "1", "B": "2"}, "cwd": "/w"}


@each_row(
    ("other", "same"),
    [
        ({}, True),
        ({"env": {"B": "2", "A": "1"}}, True),
        ({"tool_timeout_sec": 1, "approval": "approve", "share": "host", "network": False}, True),
        ({"command": "y"}, False),
        ({"args": ["b"]}, False),
        ({"args": ["a", ""]}, False),
        ({"env": {"A": "1"}}, False),
        ({"env": {"A": "1", "B": "3"}}, False),
        ({"cwd": "/v"}, False),
        ({"env_vars": ["GH_TOKEN"]}, False),
        ({"sandbox": "read_only"}, False),
    ],
)
def test_one_key_is_one_process(other, same) -> None:
    """The pool's key: transport, command, args, env, cwd, roots, credentials, sandbox class."""
    assert (launch(BASE).key == launch({**BASE, **other}).key) is same


def test_roots_credentials_and_the_network_of_a_sandbox_are_in_the_key() -> None:
    boxed = {**BASE, "sandbox": "read_only"}
    address = {"url": "https://x/", "bearer_token_env_var": "T"}
    keys = [
        launch(BASE).key,
        launch(BASE, workspace="/r").key,
        launch(boxed).key,
        launch({**BASE, "pid_namespace": False}).key,
        launch({**boxed, "network": False}).key,
        launch(address, {"T": "one"}).key,
        launch(address, {"T": "two"}).key,
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 64 for key in keys)


def test_a_launch_shows_nothing() -> None:
    made = launch({"command": "secret-cmd", "args": ["secret-arg"], "env": {"K": "secret-env"}, "cwd": "/secret"})
    assert "secret" not in repr(made)
    assert made.key[:12] in repr(made)


@each_row(
    ("table", "secrets"),
    [
        ({"command": "x", "env": {"API_TOKEN": "word", "MODE": "production-mode"}}, {"word"}),
        ({"command": "x", "env": {"PAT": "a1b2c3d4e5f6g7h8", "ROOT": "/srv/data/2024/x1"}}, {"a1b2c3d4e5f6g7h8"}),
        ({"command": "x", "env_vars": ["GH_TOKEN", "PLAIN"]}, {"ghs-value-of-it"}),
        ({"command": "x", "args": ["--api-key", "abc", "--token=def", "--name", "n", "--secret"]}, {"abc", "def"}),
        ({"command": "x"}, set()),
        (
            {"url": "https://x/?api_key=qqq&v=1", "http_headers": {"Authorization": "Basic zzz", "User-Agent": "ua"}},
            {"qqq", "zzz", "Basic zzz"},
        ),
        ({"url": "https://x/", "bearer_token_env_var": "PLAIN", "env_http_headers": {"A": "NOT_THERE"}}, {"p"}),
    ],
)
def test_secrets_are_known_for_redaction(table, secrets) -> None:
    """E6 for servers: env values, headers and tokens, but no word that is none."""
    assert set(secrets_in_definition(server_from_wire("x", table, origin="user"), VARIABLES)) == secrets


def test_names_tell_secrets() -> None:
    assert [is_secret(name) for name in ("GH_TOKEN", "--api-key", "password", "PATH", "MODE")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "table",
    [
        {"command": "x", "args": ["--token=def"], "env": {"API_TOKEN": "word"}, "env_vars": ["GH_TOKEN"]},
        {"url": "https://x/?api_key=qqq", "http_headers": {"X-Key": "zzz"}, "bearer_token_env_var": "GH_TOKEN"},
        {"url": "https://x/", "env_http_headers": {"X-Key": "GH_TOKEN"}, "http_headers": {"Accept": "no-secret"}},
    ],
)
def test_what_is_started_knows_its_secrets_too(table: dict[str, Any]) -> None:
    definition = server_from_wire("x", table, origin="user")
    secrets = set(secrets_in_launch(definition, resolve_launch(definition, VARIABLES)))
    assert secrets >= set(secrets_in_definition(definition, VARIABLES))
    assert "no-secret" not in secrets


def test_a_server_is_told_of_the_workspace_or_of_what_its_table_names_and_of_nothing_else() -> None:
    """L8."""
    assert launch({"command": "x"}).roots == ()
    assert launch({"url": "https://x/"}).roots == ()
    assert launch({"command": "x"}, workspace="/repo").roots == ("/repo",)
    resolved = launch({"command": "x", "roots": ["~/notes", "/a/../b"]}, workspace="/repo")
    assert (resolved.roots, resolved.writable) == (("/home/ana/notes", "/b"), ("/repo", "/home/ana/notes", "/b"))
    none = launch({"url": "https://x/", "roots": []}, workspace="/repo")
    assert none.roots == ()
    with pytest.raises(McpError, match=r"mcp_servers\.x\.roots names 'here', which is no absolute directory"):
        launch({"command": "x", "roots": ["here"]})


def test_one_that_is_told_of_a_workspace_is_another_process_for_another_workspace() -> None:
    """L8."""
    definition = server_from_wire("x", {"command": "x"}, origin="user")
    first, other = resolve_launch(definition, VARIABLES, "/a"), resolve_launch(definition, VARIABLES, "/b")
    moved = placed(first, definition, "/b")
    assert (moved.roots, moved.writable, moved.cwd) == (("/b",), ("/b",), first.cwd)
    assert len({first.key, moved.key, other.key}) == 3
    for same in (placed(first, definition, "/a"), placed(first, definition, None)):
        assert same is first
    named = server_from_wire("x", {"command": "x", "roots": ["/n"]}, origin="user")
    made = resolve_launch(named, VARIABLES, "/a")
    assert placed(made, named, "/b") is made
    nowhere = resolve_launch(definition, VARIABLES)
    assert placed(nowhere, definition, "/b") is nowhere
