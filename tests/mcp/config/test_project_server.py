"""A project's server as it is written: one digest for one content, and nothing looked up before it is trusted."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import Stdio
from tertulia.mcp.config.project_server import ProjectServer
from tests.tables import each_row

ENTRY: dict[str, Any] = {"command": "npx", "args": ["-y", "s"], "env": {"A": "1"}}
SERVER = ProjectServer(name="x", entry=ENTRY, source="/repo/.mcp.json", folder="/repo", form="json")


@each_row(
    "change",
    [
        {"entry": {**ENTRY, "command": "npx2"}},
        {"entry": {**ENTRY, "args": ["s", "-y"]}},
        {"entry": {**ENTRY, "args": ["-y s"]}},
        {"entry": {**ENTRY, "env": {"A": "2"}}},
        {"entry": {**ENTRY, "env": {"B": "1"}}},
        {"entry": {**ENTRY, "env": {}}},
        {"entry": {**ENTRY, "cwd": "."}},
        {"entry": {**ENTRY, "approval": "approve"}},
        {"entry": {**ENTRY, "unknown": True}},
        {"name": "y"},
        {"source": "/other/.mcp.json"},
    ],
)
def test_any_change_is_another_server(change) -> None:
    """C2"""
    assert replace(SERVER, **change).digest != SERVER.digest


def test_whatever_json_and_toml_can_say_has_a_digest() -> None:
    odd = (10**30, date(2026, 1, 1), None, 1.5, [[]], math.inf, math.nan)
    assert len({replace(SERVER, entry={"command": entry}).digest for entry in odd}) == len(odd)


def test_the_order_of_keys_is_no_change() -> None:
    assert replace(SERVER, entry=dict(reversed(ENTRY.items()))).digest == SERVER.digest


def test_the_definition_has_variables_and_its_place() -> None:
    server = replace(SERVER, entry={"command": "${BIN}/x", "cwd": "sub"})
    made = server.definition({"BIN": "/bin"})
    assert made.transport == Stdio(command="/bin/x", cwd="/repo/sub")
    assert (made.origin, made.source) == ("project", "/repo/.mcp.json")
    assert SERVER.definition({}).transport == Stdio(command="npx", args=("-y", "s"), env={"A": "1"}, cwd="/repo")


def test_toml_knows_no_variables() -> None:
    made = replace(SERVER, form="toml", entry={"command": "${BIN}"}).definition({"BIN": "/bin"})
    assert made.transport == Stdio(command="${BIN}", cwd="/repo")


def test_a_mistake_is_told_with_its_file() -> None:
    for entry, expected in (
        ({"comand": "x", "command": "y", "args": "z"}, "args must be a list"),
        ({}, "neither command"),
    ):
        with pytest.raises(InvalidParamsError, match=rf"^/repo/\.mcp\.json: .*{expected}"):
            replace(SERVER, entry=entry).definition({})


def test_it_is_shown_in_full_but_for_what_is_called_a_secret() -> None:
    entry = {
        "command": "sh",
        "args": ["--token", "hunter2hunter2", "--api-key=hunter2hunter2", "--load", "evil1234567890evil"],
        "env": {"API_TOKEN": "hunter2hunter2", "REF": "${TOKEN}", "NODE_OPTIONS": "--require=evil12345678", "N": 5},
        "headers": {"Authorization": "hunter2hunter2", "X": "${KEY}", "User-Agent": "ua"},
    }
    shown = replace(SERVER, entry=entry).shown
    assert "hunter2" not in str(shown)
    assert shown["args"][0] == "--token"
    assert shown["args"][3:] == ["--load", "evil1234567890evil"]
    assert shown["env"] | {"API_TOKEN": ""} == {
        "API_TOKEN": "",
        "REF": "${TOKEN}",
        "NODE_OPTIONS": "--require=evil12345678",
        "N": 5,
    }
    assert shown["headers"] | {"Authorization": ""} == {"Authorization": "", "X": "${KEY}", "User-Agent": "ua"}
    assert replace(SERVER, entry="npx").shown == "npx"


def test_what_it_asks_for_beyond_being_started_is_known() -> None:
    entry = {"command": "x", "approval": "approve", "required": True, "sampling": True, "share": "host"}
    assert replace(SERVER, entry=entry).widening == ["approval", "required", "sampling", "share"]
    assert replace(SERVER, entry={"command": "x", "approval": "prompt", "share": "session"}).widening == []
    assert replace(SERVER, entry=[]).widening == []


def test_how_it_runs_is_known_from_what_is_written() -> None:
    def known(entry: Any) -> tuple[str, bool]:
        server = replace(SERVER, entry=entry)
        return server.kind, server.is_confined

    assert known({"command": "x"}) == ("stdio", False)
    assert known({"command": "x", "sandbox": "read-only"}) == ("stdio", True)
    assert known({"url": "https://x"}) == ("http", True)
    assert known([]) == ("", False)


def test_the_variables_that_it_would_get_are_known() -> None:
    entry = {
        "url": "https://${HOST}/",
        "headers": {"X": "${KEY:-none}"},
        "env_vars": ["A", 5],
        "bearer_token_env_var": "T",
        "env_http_headers": {"H": "V"},
        "cwd": "${NOT_LOOKED_UP}",
    }
    assert replace(SERVER, entry=entry).variables == ["A", "HOST", "KEY", "T", "V"]
    assert replace(SERVER, entry=entry, form="toml").variables == ["A", "T", "V"]
    assert replace(SERVER, entry={"env_vars": "A", "env_http_headers": []}).variables == []
    assert replace(SERVER, entry=[]).variables == []
    login = {"url": "https://x.example", "oauth": {"client_id": "x", "client_secret_env_var": "SECRET"}}
    assert replace(SERVER, entry=login).variables == ["SECRET"]


def test_foreign_keys_are_those_of_json() -> None:
    entry = {"command": "x", "alwaysAllow": []}
    assert replace(SERVER, entry=entry).foreign == ["alwaysAllow"]
    assert replace(SERVER, entry=entry, form="toml").foreign == []


def test_it_prints_nothing_of_its_content() -> None:
    assert repr(SERVER) == "ProjectServer('x', '/repo/.mcp.json')"
