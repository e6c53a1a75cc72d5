"""Where sessions lie: names that cannot lead elsewhere, modes that nobody else can read, one owner."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import BusyError, InvalidParamsError, StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.rollout.sqlite import session_files as files_module
from tertulia.rollout.sqlite.session_files import (
    FlushError,
    Ownership,
    SessionFiles,
    create_private,
    file_size,
    flush,
    hold_unowned,
    is_held,
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
    owner = Ownership.take(session_files(home, SESSION_ID))
    assert mode(session_files(home, SESSION_ID).lock) == 0o600
    owner.release()


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
    with pytest.raises(StorageError, match="not a plain file"):
        Ownership.take(files)
    assert target.read_bytes() == b"precious"
    assert not is_held(files)


def test_a_flush_that_fails_is_told_apart_from_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F6."""

    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FlushError):
        flush(tmp_path)
    with pytest.raises(FlushError):
        create_private(tmp_path / "file", b"x", durable=True)


# ── owning ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_owner_in_the_same_process_is_refused_too(files: SessionFiles) -> None:
    owner = Ownership.take(files)
    assert is_held(files)
    with pytest.raises(BusyError, match=f"process {os.getpid()}.*--follow") as refusal:
        Ownership.take(files)
    assert refusal.value.detail == {"session_id": SESSION_ID, "file": str(files.db), "pid": os.getpid()}
    owner.release()
    assert not is_held(files)
    assert not files.lock.exists()
    Ownership.take(files).release()


OWNER = """
import sys, pathlib
from tertulia.rollout.sqlite.session_files import Ownership, session_files
owner = Ownership.take(session_files(pathlib.Path(sys.argv[1]), sys.argv[2]))
print("mine", flush=True)
sys.stdin.read()
"""


def test_ownership_is_known_to_other_processes_and_ends_with_its_process(files: SessionFiles) -> None:
    """F9: two processes; killed -9, the first leaves a lock behind that locks nothing."""
    command = [sys.executable, "-c", OWNER, str(files.home), SESSION_ID]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert cast(IO[bytes], process.stdout).readline() == b"mine\n"
        assert is_held(files)
        with pytest.raises(BusyError) as refusal:
            Ownership.take(files)
        assert refusal.value.detail["pid"] == process.pid
        process.kill()
    assert files.lock.exists()
    assert not is_held(files)
    Ownership.take(files).release()


@pytest.mark.parametrize("said", [b"", b"not a number", b"9" * 100])
def test_an_owner_who_did_not_leave_his_number_is_another_process(files: SessionFiles, said: bytes) -> None:
    files.lock.write_bytes(said)
    with files.lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="in use by"):
            Ownership.take(files)


def test_a_lock_that_was_removed_while_it_was_opened_locks_nothing(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last owner removes the file; who opened it just before must not believe he has it."""
    real, removed = fcntl.flock, []

    def flock(fd: int, how: int) -> None:
        if not removed:
            removed.append(files.lock.unlink())
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    owner = Ownership.take(files)
    assert files.lock.exists()
    with pytest.raises(BusyError):
        Ownership.take(files)
    owner.release()


def test_a_lock_that_cannot_be_tried_is_closed_again(files: SessionFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))

    def flock(fd: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="No locks"):
        Ownership.take(files)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_passer_by_is_told_whether_he_would_disturb(files: SessionFiles) -> None:
    with hold_unowned(files) as free:
        assert free
    owner = Ownership.take(files)
    files.lock.unlink()  # what another process sees does not matter
    with hold_unowned(files) as free:
        assert not free
    owner.release()
    for path in (files.wal, files.lock):
        path.touch()
        with hold_unowned(files) as free:
            assert not free
        path.unlink()
    assert files not in files_module._owned_here
