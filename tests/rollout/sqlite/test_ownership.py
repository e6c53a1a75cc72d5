"""One owner a session, by a byte of a lock file that many share: known to others, gone with the process."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

import pytest

from tertulia.errors import BusyError, StorageError
from tertulia.rollout.sqlite import ownership
from tertulia.rollout.sqlite.ownership import Ownership, hold_unowned, is_held
from tertulia.rollout.sqlite.session_files import SessionFiles, make_sessions_folder, session_files
from tests.deadlines import HANG_S

SESSION_ID = "00000000-1111-4222-8333-444444444444"


def sibling(number: int) -> str:
    """Of a session with the same lock file."""
    return f"00000000-1111-4222-8333-{number:011x}4"


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    home = tmp_path / "home"
    make_sessions_folder(home)
    return session_files(home, SESSION_ID)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_second_owner_in_the_same_process_is_refused_too(files: SessionFiles, tmp_path: Path) -> None:
    owner = Ownership.take(files)
    assert is_held(files)
    (tmp_path / "alias").symlink_to(files.home)
    for same in (files, session_files(tmp_path / "alias", SESSION_ID)):
        with pytest.raises(BusyError, match=f"process {os.getpid()}.*tertulia attach .*--follow") as refusal:
            Ownership.take(same)
        assert refusal.value.detail == {"session_id": SESSION_ID, "file": str(same.db), "pid": os.getpid()}
        assert is_held(same)
    owner.release()
    assert not is_held(files)
    assert not files.lock.exists()
    Ownership.take(files).release()


def test_a_thousand_sessions_are_owned_with_one_descriptor(files: SessionFiles) -> None:
    before = descriptors()
    all_files = [session_files(files.home, sibling(number)) for number in range(1000)]
    owners = [Ownership.take(one) for one in all_files]
    assert descriptors() == before + 1
    assert stat.S_IMODE(files.lock.stat().st_mode) == 0o600
    for owner in owners[:-1]:
        owner.release()
    assert [is_held(one) for one in all_files[-2:]] == [False, True]
    assert files.lock.exists()
    owners[-1].release()
    assert not files.lock.exists()
    assert descriptors() == before


OWNER = """
import sys, pathlib
from tertulia.rollout.sqlite.ownership import Ownership
from tertulia.rollout.sqlite.session_files import session_files
owners = [Ownership.take(session_files(pathlib.Path(sys.argv[1]), id)) for id in sys.argv[2:]]
print("mine", flush=True)
sys.stdin.read()
"""


def test_ownership_is_known_to_other_processes_and_ends_with_its_process(files: SessionFiles) -> None:
    """F9: two processes; killed -9, the first leaves a file behind in which nothing is locked."""
    ours = Ownership.take(session_files(files.home, sibling(1)))
    command = [sys.executable, "-c", OWNER, str(files.home), SESSION_ID, sibling(2)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert cast(IO[bytes], process.stdout).readline() == b"mine\n"
        for theirs in (files, session_files(files.home, sibling(2))):
            assert is_held(theirs)
            with pytest.raises(BusyError) as refusal:
                Ownership.take(theirs)
            assert refusal.value.detail["pid"] == process.pid
        ours.release()
        assert files.lock.exists(), "another process owns sessions by it"
        process.kill()
    assert files.lock.exists()
    assert not is_held(files)
    Ownership.take(files).release()


def test_reading_the_folder_drops_no_lock(files: SessionFiles) -> None:
    """A program that copies its home has every file open for a moment."""
    owner = Ownership.take(files)
    files.lock.read_bytes()
    with files.lock.open("r+b"):
        pass
    command = subprocess.run(
        [sys.executable, "-c", OWNER, str(files.home), SESSION_ID], stdin=subprocess.DEVNULL, capture_output=True,
        timeout=HANG_S, check=False,
    )  # fmt: skip
    assert f"in use by process {os.getpid()}" in command.stderr.decode()
    owner.release()


def test_an_owner_that_the_system_does_not_name_is_another_process(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with files.lock.open("w+b") as held:
        assert ownership._try_lock_byte(held.fileno(), ownership._place(files))
        monkeypatch.setattr(os, "readlink", lambda path: "elsewhere")
        with pytest.raises(BusyError, match="in use by another process") as refusal:
            Ownership.take(files)
        assert refusal.value.detail["pid"] is None


def test_a_lock_that_was_removed_while_it_was_opened_locks_nothing(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last owner removes the file; another that opened it just before must not believe that it has it."""
    real, removed = fcntl.fcntl, []

    def lock(fd: int, how: int, what: bytes) -> bytes:
        if not removed:
            removed.append(files.lock.unlink())
        return real(fd, how, what)

    monkeypatch.setattr(fcntl, "fcntl", lock)
    owner = Ownership.take(files)
    assert files.lock.exists()
    with pytest.raises(BusyError):
        Ownership.take(files)
    owner.release()


def test_a_lock_file_that_is_replaced_is_another_one(files: SessionFiles) -> None:
    """What is owned by the old one is noticed by its owner (`FileIdentity`); new sessions use the new one."""
    before = descriptors()
    owner = Ownership.take(files)
    files.lock.unlink()
    other = Ownership.take(session_files(files.home, sibling(1)))
    owner.release()
    assert files.lock.exists()
    other.release()
    assert not files.lock.exists()
    assert descriptors() == before


@pytest.mark.parametrize("call", ["fcntl.fcntl", "os.fchmod"])
def test_a_lock_that_cannot_be_tried_is_closed_again(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = descriptors()

    def refuse(*args: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(call, refuse)
    with pytest.raises(OSError, match="No locks"):
        Ownership.take(files)
    assert descriptors() == before


@pytest.mark.parametrize("name", ["db", "lock"])
def test_a_link_planted_under_a_name_is_refused(files: SessionFiles, tmp_path: Path, name: str) -> None:
    """E7: and what it leads to is left alone."""
    (tmp_path / "precious").write_bytes(b"precious")
    getattr(files, name).symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="not a plain file"):
        Ownership.take(files)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not is_held(files)


def test_a_forked_process_owns_nothing_and_keeps_nothing_owned(files: SessionFiles) -> None:
    """H7: the child goes on when its parent has given the session up."""
    owner = Ownership.take(files)
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        held = is_held(files)
        owner.release()
        os.write(theirs, b"held" if held and is_held(files) else b"free")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert os.read(ours, 10) == b"held"
    os.close(ours)
    os.close(theirs)
    owner.release()
    assert not files.lock.exists()


def test_what_a_fork_leaves_is_not_released_twice(files: SessionFiles) -> None:
    """The same in one process: a fork begins with the lock held, and ends without."""
    owner = Ownership.take(files)
    ownership._lock.acquire()
    ownership._disown()
    assert not is_held(files)
    owner.release()
    Ownership.take(files).release()


def test_a_short_look_is_told_whether_it_would_disturb(files: SessionFiles) -> None:
    with hold_unowned(files) as free:
        assert free
    owner = Ownership.take(files)
    files.lock.unlink()  # what another process sees does not matter
    with hold_unowned(files) as free:
        assert not free
    owner.release()
    files.wal.touch()
    with hold_unowned(files) as free:
        assert not free
    files.wal.unlink()
    with files.lock.open("w+b") as held:
        assert ownership._try_lock_byte(held.fileno(), ownership._place(files))
        with hold_unowned(files) as free:
            assert not free
    assert files not in ownership._owned_here
