"""Trust is in a file that only the user writes, and holds for exactly one content."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import StorageError
from tertulia.mcp.config.project_server import ProjectServer
from tertulia.mcp.config.trust_store import TrustStore

SERVER = ProjectServer(
    name="x", entry={"command": "a", "env": {"K": "v"}}, source="/r/.mcp.json", folder="/r", form="json"
)


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home")


def test_nothing_is_trusted_at_first_and_looking_creates_nothing(store) -> None:
    """C3"""
    assert not store.is_trusted(SERVER)
    assert store.read().problem is None
    assert not store.path.parent.exists()


def test_trust_lasts_and_can_be_taken_back(store) -> None:
    assert not store.is_trusted(SERVER)
    store.trust(SERVER)
    assert TrustStore(store.path.parent).is_trusted(SERVER)
    assert store.revoke("x", "/r/.mcp.json")
    assert not store.is_trusted(SERVER)
    assert not store.revoke("x", "/r/.mcp.json")


@pytest.mark.parametrize(
    "entry", [{"command": "b"}, {"command": "a", "args": ["-x"]}, {"command": "a", "env": {"K": "w"}}]
)
def test_an_edit_takes_trust_away(store, entry) -> None:
    """C2"""
    store.trust(SERVER)
    assert store.is_trusted(SERVER)
    assert not store.is_trusted(replace(SERVER, entry=entry))
    assert not store.is_trusted(replace(SERVER, source="/elsewhere/.mcp.json"))


def test_trusting_the_new_content_forgets_the_old_one(store) -> None:
    other = replace(SERVER, name="other")
    edited = replace(SERVER, entry={"command": "b"})
    for server in (SERVER, other, edited):
        store.trust(server)
    assert [store.is_trusted(server) for server in (SERVER, other, edited)] == [False, True, True]


def test_the_file_is_for_its_owner_alone_and_holds_no_definition(store) -> None:
    before = os.umask(0)
    try:
        store.trust(SERVER)
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert json.loads(store.path.read_text()) == {
        "trusted": {SERVER.digest: {"name": "x", "source": "/r/.mcp.json"}},
        "version": 1,
    }
    assert list(store.path.parent.iterdir()) == [store.path]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"trusted": {"' + SERVER.digest + '": 1}}',
        '{"trusted": {"' + SERVER.digest + '": {"name": "x", "source": "y"}}, "version": 2}',
        b"\xff",
        b" " * (4 * 1024 * 1024 + 1),
    ],
    ids=range(7),
)
def test_a_broken_file_trusts_nothing_and_says_so(store, content) -> None:
    store.trust(SERVER)
    assert store.is_trusted(SERVER)
    store.path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert not store.is_trusted(SERVER)
    problem = store.read().problem
    assert problem is not None
    assert problem.startswith(f"{store.path}: ")
    assert "`tertulia mcp trust NAME` writes a new file" in problem
    store.trust(SERVER)
    assert store.is_trusted(SERVER)


@pytest.mark.parametrize("which", ["file", "home"])
def test_what_others_could_have_written_trusts_nothing(store, which) -> None:
    store.trust(SERVER)
    assert store.is_trusted(SERVER)
    (store.path if which == "file" else store.path.parent).chmod(0o777)
    assert not store.is_trusted(SERVER)
    assert "can be written by others" in str(store.read().problem)


def test_a_link_is_not_followed_and_is_replaced_as_a_link(store, tmp_path) -> None:
    store.trust(SERVER)
    elsewhere = tmp_path / "elsewhere.json"
    store.path.rename(elsewhere)
    store.path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert not store.is_trusted(SERVER)
    assert store.read().problem is not None
    store.trust(replace(SERVER, name="y"))
    assert not store.path.is_symlink()
    assert elsewhere.read_bytes() == before


def test_a_pipe_is_not_waited_for(store) -> None:
    store.path.parent.mkdir(mode=0o700)
    os.mkfifo(store.path, 0o600)
    assert not store.is_trusted(SERVER)
    assert "expected a file" in str(store.read().problem)


def test_what_cannot_be_written_is_an_error_and_nothing_is_left(store) -> None:
    store.path.mkdir(parents=True, mode=0o700)
    with pytest.raises(StorageError, match=r"mcp-trust\.json cannot be written"):
        store.trust(SERVER)
    assert not store.is_trusted(SERVER)


def test_two_who_trust_at_once_both_leave_their_mark(store) -> None:
    servers = [replace(SERVER, name=f"s{number}") for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store.trust, servers))
    assert all(map(store.is_trusted, servers))
