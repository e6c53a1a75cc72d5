"""Where sessions lie: names that cannot lead elsewhere, modes that nobody else can read, one owner."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.rollout.sqlite.session_files import (
    FlushError,
    SessionFiles,
    create_private,
    file_size,
    flush,
    is_session_id,
    make_sessions_folder,
    refuse_links,
    session_files,
)

SESSION_ID = "00000000-1111-4222-8333-444444444444"


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    home = tmp_path / "home"
    make_sessions_folder(home)
    return session_files(home, SESSION_ID)


@pytest.fixture(params=[0, 0o777])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    ["", "../x", "..", "a\0b", "x" * 4096, SESSION_ID.upper().replace("0", "A"), SESSION_ID + "\n", f"../{SESSION_ID}",
     SESSION_ID + "/..", SESSION_ID.replace("-", ""), "０" + SESSION_ID[1:]],
)  # fmt: skip
def test_what_is_no_uuid_is_refused_before_a_path_is_made(tmp_path: Path, wrong: str) -> None:
    """E9."""
    with pytest.raises(InvalidParamsError) as refusal:
        session_files(tmp_path, wrong)
    assert len(refusal.value.message) < 250
    assert list(tmp_path.iterdir()) == []


@given(st.text())
def test_no_text_leads_out_of_the_folder(text: str) -> None:
    """E9."""
    if is_session_id(text):
        assert session_files(Path("/home"), text).db.parent == Path("/home/sessions")
    else:
        with pytest.raises(InvalidParamsError):
            session_files(Path("/home"), text)


def test_our_own_ids_are_fine(tmp_path: Path) -> None:
    files = session_files(tmp_path, new_session_id())
    assert {files.db.parent, files.wal.parent, files.shm.parent, files.lock.parent} == {tmp_path / "sessions"}
    assert (file_size(files.db), files.size()) == (0, 0)


# ── the folder ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("_umask")
def test_folders_and_files_are_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    """E7."""
    home = tmp_path / "a" / "home"
    make_sessions_folder(home)
    make_sessions_folder(home)
    assert [mode(path) for path in (home.parent, home, home / "sessions")] == [0o700] * 3
    create_private(home / "file", b"content")
    assert (mode(home / "file"), (home / "file").read_bytes()) == (0o600, b"content")


@pytest.mark.parametrize("place", ["home", "home/sessions"])
def test_a_folder_that_others_can_write_is_refused(files: SessionFiles, tmp_path: Path, place: str) -> None:
    """E7."""
    (tmp_path / place).chmod(0o777)
    with pytest.raises(StorageError, match="chmod go-w") as refusal:
        make_sessions_folder(files.home)
    assert str(tmp_path / place) in refusal.value.message


def test_a_group_of_one_s_own_may_write_and_another_may_not(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E7: the umask 002 is common where every user has a group."""
    files.home.chmod(0o770)
    make_sessions_folder(files.home)
    monkeypatch.setattr(os, "getegid", lambda: files.home.stat().st_gid + 1)
    with pytest.raises(StorageError, match="can be written by others"):
        make_sessions_folder(files.home)


def test_a_link_for_a_folder_is_refused_and_one_for_the_home_is_not(tmp_path: Path) -> None:
    """E7: a planted link; but a home may lie on another disk."""
    (tmp_path / "elsewhere").mkdir(0o700)
    (tmp_path / "home").symlink_to(tmp_path / "elsewhere")
    make_sessions_folder(tmp_path / "home", durable=True)
    sessions = tmp_path / "elsewhere" / "sessions"
    sessions.rename(tmp_path / "theirs")
    sessions.symlink_to(tmp_path / "theirs")
    with pytest.raises(StorageError, match="is a link"):
        make_sessions_folder(tmp_path / "home")


def test_a_new_file_replaces_nothing_and_follows_no_link(tmp_path: Path) -> None:
    """E7: O_EXCL and O_NOFOLLOW."""
    (tmp_path / "there").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            create_private(tmp_path / name, b"ours", durable=True)
    assert (tmp_path / "there").read_bytes() == b"theirs"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["db", "wal", "shm", "lock"])
def test_a_link_planted_under_a_session_s_name_is_refused(files: SessionFiles, tmp_path: Path, name: str) -> None:
    """E7: and what it leads to is left alone."""
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    getattr(files, name).symlink_to(target)
    with pytest.raises(StorageError, match="not a plain file"):
        refuse_links(files)
    assert target.read_bytes() == b"precious"


def test_a_flush_that_fails_is_told_apart_from_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F6."""

    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FlushError):
        flush(tmp_path)
    with pytest.raises(FlushError):
        create_private(tmp_path / "file", b"x", durable=True)
