"""The token of a server: made once, read by its owner alone."""

from __future__ import annotations

import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tertulia.errors import StorageError
from tertulia.server.http.guard import matches_token
from tertulia.server.http.server import load_or_create_token
from tests.deadlines import HANG_S
from tests.tables import each_row


def test_it_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """E7, X-46: whatever the umask says."""
    path = tmp_path / "home" / "serve.token"
    before = os.umask(0)
    try:
        token = load_or_create_token(path)
    finally:
        os.umask(before)
    assert len(token) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert load_or_create_token(path) == token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o601])
def test_one_that_others_could_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    """E7, issue 10: they may know what is in it. It is left as it is, for its owner to look at."""
    path = tmp_path / "serve.token"
    path.write_text("a" * 64)
    path.chmod(mode)
    with pytest.raises(StorageError, match="others can read or change it; remove it"):
        load_or_create_token(path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("a" * 64, mode)
    path.unlink()
    assert load_or_create_token(path) != "a" * 64


@pytest.mark.parametrize("weak", [b"", b"short", b" \n", b"\xff" * 64])
def test_one_that_could_be_guessed_is_replaced(tmp_path: Path, weak: bytes) -> None:
    path = tmp_path / "serve.token"
    path.write_bytes(weak)
    path.chmod(0o600)
    assert len(load_or_create_token(path)) == 64
    assert len(path.read_text()) == 64


def test_a_link_that_was_planted_is_not_followed(tmp_path: Path) -> None:
    """E7."""
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / "serve.token").symlink_to(victim)
    with pytest.raises(StorageError, match="it is a link; remove it"):
        load_or_create_token(tmp_path / "serve.token")
    assert victim.read_text() == "keep"


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket", "dangling link", "link to a directory"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    """E7, issue 10: nobody writes into that pipe, ever."""
    path = tmp_path / "serve.token"
    match kind:
        case "directory":
            path.mkdir(mode=0o700)
        case "pipe":
            os.mkfifo(path, 0o600)
        case "socket":
            with socket.socket(socket.AF_UNIX) as planted:
                planted.bind(str(path))
        case "dangling link":
            path.symlink_to(tmp_path / "nothing")
        case _:
            path.symlink_to(tmp_path)
    before = path.lstat()
    with pytest.raises(StorageError, match="remove it"):
        load_or_create_token(path)
    assert path.lstat().st_ino == before.st_ino
    assert not (tmp_path / "nothing").exists()


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E7."""
    path = tmp_path / "serve.token"
    token = load_or_create_token(path)
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(StorageError, match="not a file of yours"):
            load_or_create_token(path)
    assert path.read_text() == token


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StorageError, match="home"):
        load_or_create_token(tmp_path / "home" / "serve.token")


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match=r"serve\.token: No space left"):
        load_or_create_token(tmp_path / "serve.token")
    monkeypatch.undo()
    assert len(load_or_create_token(tmp_path / "serve.token")) == 64


def test_servers_that_begin_at_the_same_time_agree_on_one_token(tmp_path: Path) -> None:
    """Issue 10: else the clients of one of them would be refused for ever."""
    for number in range(20):
        path = tmp_path / f"{number}.token"
        together = Barrier(8)

        def begin(path: Path = path, together: Barrier = together) -> str:
            together.wait(HANG_S)
            return load_or_create_token(path)

        with ThreadPoolExecutor(8) as servers:
            tokens = {begun.result(20) for begun in [servers.submit(begin) for _ in range(8)]}
        assert tokens == {path.read_text()}


@each_row("value", [b"", b"a" * 63, b"a" * 65, b"A" * 64, b"\xff" * 64, b"a" * 63 + b"\n"])
def test_only_the_very_token_is_it(value: bytes) -> None:
    """D6."""
    assert matches_token(b"a" * 64, "a" * 64)
    assert not matches_token(value, "a" * 64)
