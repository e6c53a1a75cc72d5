"""What processes use together, measured on real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tertulia.sandbox.limits import added_bytes, usage
from tertulia.sandbox.limits.added_bytes import COARSE_CLOCK, AddedBytes
from tertulia.sandbox.limits.usage import LATEST_S, SOONEST_S, UsageMeter, usage_before, written_by
from tests.tables import each_row

MEGABYTE = 1 << 20
SIZE = 64 * MEGABYTE
CASES = {
    "shared anonymous memory": "import mmap; m = mmap.mmap(-1, SIZE); m.write(b'x' * SIZE)",
    "private memory": "m = b'x' * SIZE",
    "a file in memory that nobody maps": "import os; fd = os.memfd_create('m'); os.write(fd, b'x' * SIZE)",
    "filled by a child that has ended": (
        "import mmap, os; m = mmap.mmap(-1, SIZE)\nif os.fork() == 0: m.write(b'x' * SIZE); os._exit(0)\nos.wait()"
    ),
    "of a process whose first thread has ended": (
        "import ctypes, mmap, threading\n"
        "def fill():\n  m = mmap.mmap(-1, SIZE); m.write(b'x' * SIZE); print('up', flush=True); input()\n"
        "threading.Thread(target=fill).start(); ctypes.CDLL(None).pthread_exit(None)"
    ),
    "on its way through a socket": (
        "import os, socket; fd = os.memfd_create('m'); os.write(fd, b'x' * SIZE); pair = socket.socketpair()\n"
        "socket.send_fds(pair[0], [b'x'], [fd]); os.close(fd)"
    ),
    "shared by ten": (
        "import mmap, os, signal; m = mmap.mmap(-1, SIZE); m.write(b'x' * SIZE)\n"
        "for _ in range(9):\n  if os.fork() == 0: m.find(b'y'); signal.pause()"
    ),
}


@contextmanager
def running(code: str, size: int = SIZE) -> Iterator[int]:
    """A process below another of ours, which is the root of the tree; that one."""
    child = f"SIZE = {size}\n{code}\nprint('up', flush=True)\ninput()"
    above = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', sys.argv[1]])"
    line = [sys.executable, "-I", "-S", "-c", above, child]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as root:
        assert root.stdout is not None
        before = UsageMeter(root.pid, processes=None, memory=1 << 50, written=None)
        assert before.look() is None
        assert root.stdout.readline() == b"up\n"
        try:
            yield root.pid
        finally:
            os.killpg(root.pid, 9)


@each_row("name", CASES)
def test_s8_shared_memory_counts_once_wherever_it_is(name: str) -> None:
    """S8: not by what each process has, and not only by what some process shows."""
    with running(CASES[name]) as root:
        for limit, expected in ((SIZE // 2, "memory_bytes"), (3 * SIZE, None)):
            # As if all that the machine shares had come since then: others of this machine come and go meanwhile.
            shmem = 0 if name != "on its way through a socket" else usage._machine_shmem() - SIZE
            before = usage_before((), root)._replace(shmem=shmem)
            meter = UsageMeter(root, processes=None, memory=limit, written=None, before=before)
            assert meter.look() == expected


def test_s8_memory_that_another_program_gives_back_hides_no_file() -> None:
    """S8: in a workspace that is memory; the machine as a whole has less in use than when the command began."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, running("pass") as root:
        before = usage_before([folder], root)
        meter = UsageMeter(
            root, processes=None, memory=SIZE, written=None, roots=[folder],
            before=before._replace(shmem=before.shmem + 16 * SIZE),
        )  # fmt: skip
        assert meter.look() is None
        Path(folder, "new").write_bytes(b"x" * 2 * SIZE)
        assert meter.look() == "memory_bytes"


def test_s8_memory_that_another_program_gives_back_hides_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: what only a descriptor holds, and is asked for because the machine had gained as much for a while."""
    machine = [0]
    monkeypatch.setattr(usage, "_machine_shmem", lambda: machine[0])
    with running(CASES["a file in memory that nobody maps"]) as root:
        meter = UsageMeter(root, processes=None, memory=SIZE // 2, written=None)
        for shmem, expected in ((SIZE // 4, None), (0, None), (SIZE // 2, "memory_bytes"), (0, "memory_bytes")):
            machine[0] = shmem
            assert meter.look() == expected


def test_s8_memory_that_another_program_takes_again_and_again_is_not_the_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S8: it raises the question, and the answer counts."""
    machine = [0]
    monkeypatch.setattr(usage, "_machine_shmem", lambda: machine[0])
    with running("pass") as root:
        meter = UsageMeter(root, processes=None, memory=SIZE, written=None)
        for shmem in (SIZE, 0) * 5:
            machine[0] = shmem
            assert meter.look() is None


def test_s8_what_only_a_descriptor_holds_is_seen_once() -> None:
    """S8: a thread may have a table of its own, so all of them are looked at."""
    held = usage._Held([os.getpid()])
    fd = os.memfd_create("m")
    try:
        os.write(fd, b"x" * MEGABYTE)
        assert usage._Held([os.getpid()]).in_memory - held.in_memory >= MEGABYTE
    finally:
        os.close(fd)


def test_s8_more_descriptors_than_can_be_looked_at_may_hide_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: fail closed, in bounded time."""
    assert not usage._Held([os.getpid()]).hides
    monkeypatch.setattr(usage, "_MOST_DESCRIPTORS", 1)
    assert usage._Held([os.getpid()]).hides


def test_s8_files_in_memory_of_the_command_count(tmp_path: Path) -> None:
    """S8: by what their file system says; a place that is gone holds nothing."""
    status = os.statvfs("/dev/shm")
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    with running("pass") as root:
        file = Path("/dev/shm", f"tertulia-{os.getpid()}")
        try:
            file.write_bytes(b"x" * SIZE)
            meter = UsageMeter(
                root, processes=None, memory=used + SIZE // 2, written=None, places=["/dev/shm", "/no/such/place"]
            )
            assert meter.look() == "memory_bytes"
        finally:
            file.unlink()
        assert meter.look() is None


def test_s8_what_goes_to_a_disk_counts_once_its_writer_is_buried_too(tmp_path: Path) -> None:
    """S8"""
    write = f"open({str(tmp_path / 'f')!r}, 'wb').write(b'x' * SIZE)"
    code = f"import os\nif os.fork() == 0:\n  {write}\n  os._exit(0)\nos.wait()"
    with running(code) as root:
        meter = UsageMeter(root, processes=None, memory=None, written=SIZE // 2)
        assert meter.look() in (None, "written_bytes")
        # From the beginning: this one began to look only now.
        meter._written_before = 0
        assert meter.look() == "written_bytes"
        assert SIZE <= meter.written < 2 * SIZE


def test_s8_what_is_deleted_before_it_got_to_a_disk_does_not_count(tmp_path: Path) -> None:
    """S8: as a compiler's temporary files are."""
    file = tmp_path / "f"
    before = written_by([os.getpid()])
    file.write_bytes(b"x" * SIZE)
    assert written_by([os.getpid()]) - before >= SIZE // 2
    file.unlink()
    assert written_by([os.getpid()]) - before < SIZE // 2
    assert written_by([0]) == 0


def test_zombies_are_no_processes() -> None:
    """S8: a chain of forks whose parents have not looked yet."""
    # Each has ended before the next is made, and is not buried.
    code = (
        "import os\nfor _ in range(20):\n  child = os.fork()\n  if child == 0: os._exit(0)\n"
        "  os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)"
    )
    with running(code) as root:
        meter = UsageMeter(root, processes=3, memory=None, written=None)
        assert meter.look() is None


def test_the_nearer_a_limit_the_sooner_it_looks_again() -> None:
    with running("pass") as root:
        far = UsageMeter(root, processes=None, memory=1 << 40, written=None)
        assert far.look() is None
        near = UsageMeter(root, processes=None, memory=80 * MEGABYTE, written=None)
        assert near.look() is None
    assert (far.pause_s, near.pause_s) == (LATEST_S, SOONEST_S)
    assert UsageMeter(os.getpid(), processes=None, memory=None, written=None).pause_s == LATEST_S


def test_one_that_lets_nobody_look_counts_with_all_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: an ordinary user cannot read the mappings of a process that has switched dumps off."""
    real = usage._read

    def hidden(*parts: object) -> bytes:
        return b"" if parts[-1] in ("maps", "smaps_rollup") else real(*parts)

    with running(CASES["private memory"]) as root:
        meter = UsageMeter(root, processes=None, memory=SIZE // 2, written=None)
        monkeypatch.setattr(usage, "_read", hidden)
        assert meter.look() == "memory_bytes"


class Fuller(AddedBytes):
    """Everything is on one file system, which is fuller by as much as the test says."""

    by = 0

    def _used(self) -> dict[int, int]:
        return dict.fromkeys(self._roots, self.by)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root" / "deep").mkdir(parents=True)
    old = tmp_path / "root" / "old"
    old.write_bytes(os.urandom(MEGABYTE))
    # Until the clock that dates changes has moved on: a few milliseconds.
    while time.clock_gettime_ns(COARSE_CLOCK) <= old.stat().st_ctime_ns:
        pass
    return tmp_path / "root"


def test_s8_what_was_changed_since_then_counts_once(folder: Path) -> None:
    """S8: new and rewritten files, however deep, under however many names; what was there before is not blamed."""
    tried = Fuller([str(folder), str(folder / "missing")])
    assert (tried.grown(), tried.found(0)) == (0, 0)
    (folder / "deep" / "new").write_bytes(os.urandom(2 * MEGABYTE))
    os.link(folder / "deep" / "new", folder / "again")
    (folder.parent / "elsewhere").write_bytes(os.urandom(MEGABYTE))
    tried.by = 100 * MEGABYTE
    assert 2 * MEGABYTE <= tried.found(0) < 3 * MEGABYTE


def test_s8_no_more_than_the_file_system_has_grown_counts(folder: Path) -> None:
    """S8: a large file of which a byte was changed."""
    tried = Fuller([str(folder)])
    with (folder / "old").open("r+b") as file:
        file.write(b"x")
    tried.by = 4096
    assert tried.found(0) == 4096


@each_row(("root", "counts"), [(0, True), (os.getpid(), False)])
def test_s8_what_a_short_command_wrote_counts_where_its_own_count_is_gone(
    root: int, counts: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: for an ordinary user a 64th of the limit a command was free, which is half a gigabyte."""
    monkeypatch.setattr(usage, "AddedBytes", lambda roots, since, used: fuller)
    fuller = Fuller([str(folder)])
    meter = UsageMeter(root, processes=None, memory=None, written=32 << 30, roots=[str(folder)])
    (folder / f"new {root}").write_bytes(b"x" * 20 * MEGABYTE)
    fuller.by = 20 * MEGABYTE
    monkeypatch.setattr(meter, "count_written", lambda pids: None)
    meter.conclude()
    assert meter.written == (20 * MEGABYTE if counts else 0)


def test_it_looks_again_only_where_the_answer_could_be_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Fuller([str(folder)])
    tried.by = 10 * MEGABYTE
    assert tried.found(20 * MEGABYTE) == 0
    (folder / "new").write_bytes(os.urandom(MEGABYTE))
    first = tried.found(0)
    assert MEGABYTE <= first < 2 * MEGABYTE
    monkeypatch.setattr(tried, "_changed", lambda held: pytest.fail("nothing has grown enough"))
    tried.by += MEGABYTE
    assert tried.found(5 * MEGABYTE) == first


def test_s8_a_file_without_a_name_counts_by_who_has_it_open(folder: Path) -> None:
    """S8"""
    tried = Fuller([str(folder)])
    tried.by = 10 * MEGABYTE
    with (folder / "gone").open("wb") as file:
        file.write(os.urandom(3 * MEGABYTE))
        file.flush()
        (folder / "gone").unlink()
        assert tried.found(0) < MEGABYTE
        tried.by += 1
        assert tried.found(0, held=[os.fstat(file.fileno())]) >= 3 * MEGABYTE


def test_s8_what_cannot_be_looked_at_is_the_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: fail closed, for a directory that it closed to us and for more than anybody can look at in time."""
    tried = Fuller([str(folder)])
    tried.by = 10 * MEGABYTE
    (folder / "closed").mkdir()
    real = os.scandir

    def scandir(path: str) -> os._ScandirIterator[str]:
        if path.endswith("closed"):
            raise PermissionError
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        assert tried.found(0) == 10 * MEGABYTE
    monkeypatch.setattr(added_bytes, "MOST_ENTRIES", 0)
    again = Fuller([str(folder)])
    again.by = 10 * MEGABYTE
    assert again.found(0) == 10 * MEGABYTE


def test_a_directory_that_was_closed_before_is_nobodys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir
    tried = Fuller([str(folder)])
    tried._since += 10**9
    tried.by = MEGABYTE

    def scandir(path: str) -> os._ScandirIterator[str]:
        if path.endswith("deep"):
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert tried.found(0) == 0


def test_file_systems_in_memory_are_known() -> None:
    """S8: and a root that is gone has grown by nothing."""
    tried = AddedBytes(["/dev/shm", "/"])
    assert tried.in_memory == {os.stat("/dev/shm").st_dev}
    tried._roots = dict.fromkeys(tried._roots, "/no/such/place")
    assert tried.grown() == 0
