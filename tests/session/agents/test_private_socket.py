"""Places that only this user may use."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.session.agents import private_socket
from tertulia.session.agents.private_socket import is_same_user, listen_at, peer, private_directory, short_path


def test_a_directory_is_made_for_its_user_alone_and_narrowed_if_it_is_there(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    private_directory(place)
    place.chmod(0o755)
    private_directory(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_is_no_directory_of_ours_is_refused(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "file":
        place.write_text("")
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o755)
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        private_directory(place)
    assert what == "file" or stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o755


def test_one_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_socket.os, "getuid", lambda: 12345)
    with pytest.raises(StorageError, match="not a directory of yours"):
        private_directory(tmp_path)


def test_a_socket_listens_in_the_deepest_of_directories_for_its_user_alone(tmp_path: Path) -> None:
    """A socket's name has at most 107 characters."""
    deep = tmp_path / ("d" * 200) / "x.sock"
    deep.parent.mkdir()
    with listen_at(deep) as listening, socket.socket(socket.AF_UNIX) as caller:
        listening.listen()
        assert stat.S_IMODE(deep.stat().st_mode) == 0o600
        with short_path(deep) as address:
            caller.connect(address)
        connection, _ = listening.accept()
        with connection:
            assert peer(connection) == (os.getpid(), os.getuid())
            assert is_same_user(connection)


def test_a_name_that_is_taken_leaves_no_socket_open(tmp_path: Path) -> None:
    place = tmp_path / "x.sock"
    place.write_text("")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="in use"):
        listen_at(place)
    assert len(os.listdir("/proc/self/fd")) == before
