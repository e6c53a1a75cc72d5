"""Tables of servers: every key read, every mistake named, no value repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import Http, ServerDefinition, Stdio
from tertulia.mcp.config.server_table import is_known_key, read_table, server_from_wire, server_name_error
from tests.tables import each_row

CANARY = "canary-of-a-secret"


def made(table: dict[str, Any], folder: Path | None = None) -> ServerDefinition:
    return server_from_wire("fs", table, origin="user", source="file", folder=folder)


def refused(table: Any) -> str:
    with pytest.raises(InvalidParamsError) as caught:
        made(table)
    return caught.value.message


def test_every_key_of_a_program_is_read() -> None:
    """S000-31's frame: the keys that people know from Codex, and ours."""
    table = {
        "command": "npx",
        "args": ["-y", "server"],
        "env": {"A": "1"},
        "env_vars": ["TOKEN"],
        "cwd": "/srv",
        "enabled": False,
        "required": True,
        "startup_timeout_sec": 5,
        "tool_timeout_sec": 2.5,
        "enabled_tools": ["read"],
        "disabled_tools": ["write"],
        "approval": "prompt",
        "parallel": True,
        "share": "host",
        "start": "lazy",
        "sandbox": "read-only",
        "network": False,
        "concurrency": 4,
        "idle_timeout_sec": "none",
        "elicitation": False,
        "sampling": True,
    }
    assert made(table) == ServerDefinition(
        name="fs",
        transport=Stdio(command="npx", args=("-y", "server"), env={"A": "1"}, env_vars=("TOKEN",), cwd="/srv"),
        enabled=False,
        required=True,
        startup_timeout_s=5.0,
        tool_timeout_s=2.5,
        enabled_tools=("read",),
        disabled_tools=("write",),
        approval="prompt",
        parallel=True,
        share="host",
        start="lazy",
        sandbox="read_only",
        network=False,
        concurrency=4,
        idle_timeout_s=None,
        elicitation=False,
        sampling=True,
        origin="user",
        source="file",
    )
    assert all(map(is_known_key, table))


def test_every_key_of_an_address_is_read() -> None:
    table = {
        "url": "https://example.com:8443/mcp?v=1",
        "bearer_token_env_var": "TOKEN",
        "http_headers": {"X-Team": "a"},
        "env_http_headers": {"X-Key": "KEY"},
    }
    assert made(table).transport == Http(
        url="https://example.com:8443/mcp?v=1",
        bearer_token_env_var="TOKEN",
        http_headers={"X-Team": "a"},
        env_http_headers={"X-Key": "KEY"},
    )


def test_the_spellings_of_codex_are_taken() -> None:
    table = {
        "command": "x",
        "supports_parallel_tool_calls": True,
        "default_tools_approval_mode": "approve",
        "startup_timeout_ms": 1500,
    }
    server = made(table)
    assert (server.parallel, server.approval, server.startup_timeout_s) == (True, "approve", 1.5)


def test_none_is_a_word() -> None:
    """TOML has no null."""
    server = made({"command": "x", "concurrency": "none", "idle_timeout_sec": "none", "sandbox": "none"})
    assert (server.concurrency, server.idle_timeout_s, server.sandbox) == (None, None, None)


def test_a_relative_directory_counts_from_the_folder_of_its_file() -> None:
    def cwd(written: str) -> str | None:
        transport = made({"command": "x", "cwd": written}, Path("/repo")).transport
        assert isinstance(transport, Stdio)
        return transport.cwd

    assert [cwd("sub"), cwd("."), cwd("/abs"), cwd("~/x")] == ["/repo/sub", "/repo", "/abs", "~/x"]


@each_row(
    ("table", "expected"),
    [
        ({}, "mcp_servers.fs has neither command nor url"),
        ({"command": "x", "url": "https://x/"}, "mcp_servers.fs has both command and url"),
        ("npx", "mcp_servers.fs must be a table with command or url"),
        ({"command": "x", "comand": "y"}, "there is no setting 'comand'; did you mean command?"),
        ({"command": "x", "zzz": 1}, "there is no setting 'zzz'; there are "),
        (
            {"command": "x", "http_headers": {}},
            "mcp_servers.fs.http_headers goes with url, and this server has command",
        ),
        ({"url": "https://x/", "args": []}, "mcp_servers.fs.args goes with command, and this server has url"),
        ({"command": ""}, "mcp_servers.fs.command must not be empty"),
        ({"command": ["x"]}, "mcp_servers.fs.command must be a text"),
        ({"command": "x", "args": "y"}, "mcp_servers.fs.args must be a list of texts"),
        ({"command": "x", "args": ["ok", "a\0b"]}, "mcp_servers.fs.args[1] has a NUL character"),
        ({"command": "x", "args": ["\ud800"]}, "mcp_servers.fs.args[0] has a lone surrogate"),
        ({"command": "x", "env": ["A"]}, "mcp_servers.fs.env must be a table of texts"),
        ({"command": "x", "env": {"PORT": 80}}, "mcp_servers.fs.env.PORT must be a text"),
        ({"command": "x", "env": {"A=B": "c"}}, "a key of mcp_servers.fs.env must be the name of a variable"),
        ({"command": "x", "env_vars": [" A"]}, "mcp_servers.fs.env_vars must be the name of an environment variable"),
        ({"command": "x", "enabled": "yes"}, "mcp_servers.fs.enabled must be true or false"),
        ({"command": "x", "approval": "always"}, "mcp_servers.fs.approval must be one of auto, prompt, approve"),
        ({"command": "x", "share": 3}, "mcp_servers.fs.share must be one of conversation, session, host"),
        ({"command": "x", "sandbox": "strict"}, "mcp_servers.fs.sandbox must be one of none"),
        ({"command": "x", "concurrency": 0}, "mcp_servers.fs.concurrency must be a positive whole number"),
        ({"command": "x", "concurrency": True}, "mcp_servers.fs.concurrency must be a positive whole number"),
        ({"command": "x", "startup_timeout_sec": 0}, "mcp_servers.fs.startup_timeout_sec must be a positive number"),
        ({"command": "x", "tool_timeout_sec": float("inf")}, "tool_timeout_sec must be a positive number of seconds"),
        ({"command": "x", "tool_timeout_sec": True}, "tool_timeout_sec must be a positive number of seconds"),
        ({"command": "x", "startup_timeout_ms": "1"}, "startup_timeout_ms must be a positive number of milliseconds"),
        (
            {"command": "x", "startup_timeout_ms": 1, "startup_timeout_sec": 1},
            "has both startup_timeout_sec and startup_timeout_ms",
        ),
        ({"command": "x", "parallel": True, "supports_parallel_tool_calls": True}, "which are the same"),
        ({"command": "x", "default_tools_approval_mode": "no"}, "default_tools_approval_mode must be one of auto"),
    ],
)
def test_a_mistake_is_named_with_its_key(table, expected) -> None:
    assert expected in refused(table)


@each_row(
    "url",
    [
        "",
        "example.com/mcp",
        "ftp://example.com",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://host:port/",
        "https://host:0/",
        "https://host:99999/",
        "https://[::1/",
        "https://host/a b",
        "https://host/\r\nX: y",
        "https://hôst/",
        "javascript:alert(1)",
        "-oProxyCommand=x",
    ],
)
def test_a_bad_address_is_refused(url) -> None:
    """Bad input; C15: a scheme that is not the web's, a leading dash."""
    assert refused({"url": url}).startswith("mcp_servers.fs.url must")


def test_a_password_does_not_belong_into_an_address() -> None:
    refusal = refused({"url": f"https://me:{CANARY}@example.com/"})
    assert "bearer_token_env_var" in refusal
    assert CANARY not in refusal


@each_row(
    ("headers", "expected"),
    [
        ({"X": "a\r\nY: b"}, "mcp_servers.fs.http_headers.X must be one line of plain ASCII"),
        ({"X": "a\nb"}, "must be one line"),
        ({"X": "ünï"}, "must be one line of plain ASCII"),
        ({"X: y": "a"}, "'X: y' cannot be the name of a header"),
        ({"X\r\nY": "a"}, "cannot be the name of a header"),
        ({"Host": "a"}, "http_headers.Host is set by the transport itself"),
        ({"content-length": "0"}, "is set by the transport itself"),
        ({"X-A": "1", "x-a": "2"}, "gives the header x-a twice"),
    ],
)
def test_a_header_cannot_smuggle_another(headers, expected) -> None:
    assert expected in refused({"url": "https://x/", "http_headers": headers})


def test_a_header_has_one_value() -> None:
    both = {"url": "https://x/", "bearer_token_env_var": "T", "http_headers": {"authorization": "x"}}
    assert "gives the header Authorization twice" in refused(both)
    twice = {"url": "https://x/", "http_headers": {"A": "x"}, "env_http_headers": {"a": "V"}}
    assert "gives the header a twice" in refused(twice)


@each_row("name", ["", "a b", "a/b", "a.b", "ä", "a\n", "x\x1b[31m"])
def test_a_bad_name_is_refused_and_shown_harmlessly(name) -> None:
    """S000-31"""
    with pytest.raises(InvalidParamsError) as caught:
        server_from_wire(name, {"command": "x"}, origin="user")
    assert caught.value.message == server_name_error(name)
    assert caught.value.message.isprintable()


def test_a_good_name_is_fine() -> None:
    assert server_name_error("My-server_2") is None


@given(
    st.dictionaries(
        st.sampled_from(["command", "args", "env", "url", "http_headers", "cwd", "approval", "concurrency", "sandbox"]),
        st.one_of(
            st.just(CANARY),
            st.lists(st.just(CANARY)),
            st.dictionaries(st.text(max_size=3), st.one_of(st.just(CANARY), st.integers(), st.just(f"\n{CANARY}"))),
            st.just([1, CANARY]),
            st.booleans(),
            st.none(),
        ),
    )
)
def test_no_refusal_repeats_a_value(table) -> None:
    """Values may be secrets: only keys are named."""
    text = ""
    try:
        read_table("mcp_servers.fs", table)
    except InvalidParamsError as error:
        text = error.message
    assert CANARY not in text


def test_a_definition_shows_no_value_when_it_is_printed() -> None:
    program = made({"command": "x", "args": [CANARY], "env": {"K": CANARY}})
    address = made({"url": f"https://x/?k={CANARY}", "http_headers": {"K": CANARY}})
    assert CANARY not in repr(program) + repr(address)
    assert "K" in repr(program)
