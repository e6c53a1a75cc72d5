"""Where the shared broker listens: for one user, one set of settings, one set of keys."""

from __future__ import annotations

import os
import socket
import stat
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import BusyError, InvalidParamsError, StorageError
from tertulia.mcp.view import NamedView
from tertulia.protocol.storage import HeadersOnly, NoStorage
from tertulia.server.mcp import broker_address
from tertulia.server.mcp.broker_address import (
    broker_settings,
    find_view,
    hold_lock,
    is_same_user,
    private_directory,
    private_file,
    short_path,
    socket_path,
)
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.tables import each_row

SERVER = {"command": "server", "env_vars": ["TOKEN"]}
DOCS = {"url": "https://example.com", "bearer_token_env_var": "KEY", "env_http_headers": {"x-team": "TEAM"}}


def place(settings: dict[str, Any] | None = None, **variables: str) -> Path:
    config = {"mcp_servers": {"a": SERVER, "docs": DOCS}, **(settings or {})}
    return socket_path(Settings(**config), Environment.read({"HOME": "/h", "TERTULIA_HOME": "/t", **variables}))


def test_the_same_settings_have_the_same_place_and_the_name_tells_nothing() -> None:
    there = place(TOKEN="hunter2-hunter2")
    assert there == place(TOKEN="hunter2-hunter2")
    assert there.parent == Path("/t/broker")
    assert len(there.name) == len("0123456789abcdef.sock")
    assert "hunter2" not in str(there)


@each_row(
    "other",
    [
        {"mcp_servers": {"a": {**SERVER, "args": ["x"]}, "docs": DOCS}},
        {"mcp_servers": {}},
        {"mcp_views": {"v": {"mcp_tool_allowlist": []}}},
        {"approval_policy": "never"},
        {"sandbox": "read-only"},
        {"limits": {"mcp_concurrency": 1}},
        {"storage_policy": "none"},
    ],
)
def test_whoever_has_other_settings_has_another_place(other: dict[str, Any]) -> None:
    assert place(other) != place()


@pytest.mark.parametrize("name", ["TOKEN", "KEY", "TEAM"])
def test_whoever_has_another_key_has_another_place(name: str) -> None:
    """Nobody calls with somebody else's credentials."""
    assert place(**{name: "one"}) != place(**{name: "two"}) != place()


def test_variables_that_no_server_gets_make_no_difference(tmp_path: Path) -> None:
    assert place(TERM="xterm", PATH="/usr/bin") == place(TERM="dumb", PATH="/bin:/nowhere", EDITOR="vi")
    (tmp_path / "server").write_text("#!/bin/sh")
    (tmp_path / "server").chmod(0o755)
    assert place(PATH=str(tmp_path)) != place(PATH="/usr/bin")


def test_a_socket_may_have_a_path_of_any_length(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 150)
    private_directory(folder)
    with short_path(folder / "s.sock") as address, socket.socket(socket.AF_UNIX) as listening:
        assert len(address) < 100
        listening.bind(address)
    assert stat.S_ISSOCK((folder / "s.sock").stat().st_mode)


@pytest.mark.parametrize("uid", [0, 1, 1000, 65_534])
def test_only_the_same_user_is_ours(uid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Peer:
        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
            return struct.pack("3i", 4242, uid, 0)

    monkeypatch.setattr(broker_address.os, "getuid", lambda: 1000)
    assert is_same_user(Peer()) is (uid == 1000)  # type: ignore[arg-type]


def test_a_connection_of_ours_is_ours() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert is_same_user(one)


def test_a_directory_is_made_for_its_owner_alone_and_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    private_directory(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    private_directory(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("planted", ["link", "file", "foreign"])
def test_what_is_not_a_directory_of_ours_is_refused(
    tmp_path: Path, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = tmp_path / "broker", tmp_path / "other"
    other.mkdir(mode=0o755)
    if planted == "link":
        folder.symlink_to(other)
    elif planted == "file":
        folder.write_text("")
    else:
        folder.mkdir()
        real = os.getuid()
        monkeypatch.setattr(broker_address.os, "getuid", lambda: real + 1)
    with pytest.raises(StorageError):
        private_directory(folder)
    assert stat.S_IMODE(other.stat().st_mode) == 0o755


@pytest.mark.parametrize("planted", ["link", "dangling", "fifo", "directory", "device"])
def test_what_is_not_a_file_of_ours_is_refused_and_never_waited_for(tmp_path: Path, planted: str) -> None:
    path, other = tmp_path / "x.log", tmp_path / "other"
    other.write_text("precious")
    match planted:
        case "link":
            path.symlink_to(other)
        case "dangling":
            path.symlink_to(tmp_path / "nothing")
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to("/dev/null")
    with pytest.raises(StorageError):
        os.close(private_file(path, os.O_RDWR | os.O_APPEND))
    assert other.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("")
    path.chmod(0o666)
    os.close(private_file(path, os.O_RDWR))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lock_is_held_by_one_and_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "broker" / "x.lock"
    with hold_lock(path, 0), pytest.raises(BusyError), hold_lock(path, 0):
        raise AssertionError
    with hold_lock(path, 0):
        pass
    got = threading.Event()

    def wait() -> None:
        with hold_lock(path, 10):
            got.set()

    with hold_lock(path, 0):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.is_set()
    waiting.join(HANG_S)
    assert got.is_set()


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "x.lock", tmp_path / "other"
    other.write_text("")
    path.symlink_to(other)
    with pytest.raises(StorageError), hold_lock(path, 0):
        raise AssertionError


def test_it_serves_the_users_servers_from_nobodys_project_and_writes_down_no_bodies() -> None:
    config = Settings(model="openai/x", cwd="/project", mcp_servers={"a": {"command": "a"}}, approval_policy="never")
    made = broker_settings(config, Path("/home/ada"))
    assert (made.cwd, made.project_servers, made.mcp_servers) == ("/home/ada", (), config.mcp_servers)
    assert made.rights.storage_policy == HeadersOnly()
    assert made.rights.approval_policy == config.rights.approval_policy


def test_who_wants_less_written_down_gets_that() -> None:
    assert broker_settings(Settings(storage_policy="none"), Path("/h")).rights.storage_policy == NoStorage()


def test_answers_are_whole_up_to_what_the_user_or_a_view_says() -> None:
    """A default that is meant for our own models is not for programs."""
    assert broker_settings(Settings(), Path("/h")).rights.limits.max_output_bytes is None
    broker = broker_settings(Settings(limits={"max_output_bytes": 1_000, "mcp_concurrency": 3}), Path("/h"))
    assert (broker.rights.limits.max_output_bytes, broker.rights.limits.mcp_concurrency) == (1_000, 3)


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
