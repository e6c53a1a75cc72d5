"""What a command may use: the limit holds, the host is fine, the ending names the limit. Root and ordinary user."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.runner import CommandLimits
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, Place, as_ordinary_user, need, ordinary_python

LIMITS = CommandLimits(processes=60, memory_bytes=200 << 20, file_bytes=1 << 20, cpu_s=1)
SHARED = CommandLimits(processes=60, memory_bytes=200 << 20)
WRITTEN = CommandLimits(written_bytes=64 << 20)

# Bounded by itself too: a limit that does not hold must not take the machine with it.
BOMB = """
import os, signal
for n in range(1500):
    if os.fork() == 0:
        signal.pause()
# Long enough to be looked at, on a machine that is busy too.
signal.sigtimedwait([], 20)
print("bombed")
"""
ALLOCATION = "print(len(bytearray(1 << 30)))"
FILE = "dd if=/dev/zero of=big bs=1M count=64 2>&1 && echo written"
SPIN = "while True: pass"
SHARED_MEMORY = """
import mmap, signal
shared = mmap.mmap(-1, 1 << 30)
for at in range(0, 1 << 30, 4096):
    shared[at] = 1
print("filled", flush=True)
signal.pause()
"""
FILES_IN_MEMORY = """
import os, signal
# 50 MiB each: all of them are too much, and none of them is.
for folder in os.environ["FOLDERS"].split():
    for number in range(3):
        with open(f"{folder}/big{number}", "wb") as file:
            file.write(bytes(16 << 20))
held = os.memfd_create("held")
os.write(held, bytes(64 << 20))
memory = bytearray(os.urandom(4096) * (16 << 8))
print("filled", flush=True)
signal.pause()
"""
ZOMBIES = """
import os, signal
for _ in range(40):
    child = os.fork()
    if child == 0:
        os._exit(0)
    # Until it has ended, and without burying it.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
# Long enough to be looked at several times.
signal.sigtimedwait([], 0.3)
print("done")
"""
UNBURIED = """
import os, signal, time
# The kernel buries them, and forgets what they wrote.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for number in range(int(os.environ["PARTS"])):
    child = os.fork()
    if child == 0:
        with open(f"part{number}", "wb") as file:
            for _ in range(20):
                file.write(os.urandom(1 << 20))
        os._exit(0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass
print("wrote", flush=True)
signal.sigtimedwait([], float(os.environ["STAYS"]))
"""
WRITE = """
import os, sys
for number in range(int(sys.argv[1])):
    with open(f"part{sys.argv[2]}-{number}", "wb") as file:
        file.write(os.urandom(1 << 20))
print("wrote", flush=True)
sys.stdin.read()
"""


async def meet(folder: Path, tier: Any) -> dict[str, Any]:
    """Each limit, one after the other."""
    place = Place(folder)
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    commands = {
        "processes": place.python(BOMB, place.tag, limits=LIMITS),
        "memory_bytes": place.python(ALLOCATION, limits=LIMITS),
        "file_bytes": place.command("sh", "-c", FILE, limits=LIMITS),
        "cpu_s": place.python(SPIN, limits=LIMITS),
    }
    try:
        found = {}
        for name, command in commands.items():
            finished = await sandbox.run(command, timeout_s=DEADLINE_S)
            found[name] = {"limit": finished.limit, "code": finished.exit_code, "output": finished.output.text()[-300:]}
        found["survivors"] = place.survivors()
        found["written"] = (place.root / "big").stat().st_size
        return found
    finally:
        await sandbox.close()


def judge(found: dict[str, Any]) -> None:
    assert found.pop("survivors") == []
    assert found.pop("written") <= LIMITS.file_bytes
    for name, ending in found.items():
        assert ending["limit"] == name, (name, ending)
        assert ending["code"] != 0
        assert "bombed" not in ending["output"]
        assert "written" not in ending["output"]


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A file system in memory: for root one of its own, because others fill and empty `/dev/shm` meanwhile."""
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=0777", "none", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_a19_each_limit_holds_and_is_named(tier: str, tmp_path: Path) -> None:
    """A19: fork bomb, allocation, large file, spinning."""
    need(tier)
    judge(asyncio.run(meet(tmp_path, tier)))


@pytest.mark.slow
def test_a19_each_limit_holds_for_an_ordinary_user() -> None:
    """A19"""
    need("bubblewrap")
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run: only one kind of user was tried")
    ran = as_ordinary_user(python, "-m", "tests.sandbox.test_sandbox_limits")
    assert ran.returncode == 0, ran.stderr
    judge(json.loads(ran.stdout))


@pytest.fixture(params=["bubblewrap", "landlock"])
async def tried(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    need(request.param)
    sandbox = Sandbox(tier=request.param, clock=SystemClock())
    yield sandbox
    await sandbox.close()


async def test_s8_shared_memory_counts(place: Place, tried: Sandbox) -> None:
    """S8: no limit of a process counts it; whoever reads the output learns how the limit is held."""
    finished = await tried.run(place.python(SHARED_MEMORY, place.tag, limits=SHARED), timeout_s=DEADLINE_S)
    assert (finished.limit, finished.ended, finished.sampled) == ("memory_bytes", "killed", True)
    assert "watched by sampling" in (finished.limit_text() or "")
    assert place.survivors() == []


async def test_s8_files_in_memory_count_with_the_rest(place: Place, sandbox: Sandbox) -> None:
    """S8: what lies in /tmp, /var/tmp and /dev/shm, what only a descriptor holds, and what processes have."""
    environment = {"PATH": "/usr/bin:/bin", "FOLDERS": "/tmp /var/tmp /dev/shm"}
    command = place.python(FILES_IN_MEMORY, place.tag, limits=SHARED, environment=environment)
    finished = await sandbox.run(command, timeout_s=DEADLINE_S)
    assert (finished.limit, finished.ended, finished.sampled) == ("memory_bytes", "killed", True)


async def test_s8_zombies_are_no_processes(place: Place, tried: Sandbox) -> None:
    """S8: for root, where we count ourselves."""
    if os.geteuid() != 0:
        pytest.skip("not root: the kernel counts, and it counts zombies")
    finished = await tried.run(place.python(ZOMBIES, limits=CommandLimits(processes=12)), timeout_s=DEADLINE_S)
    assert (finished.exit_code, finished.limit, finished.output.text()) == (0, None, "done\n")


async def test_s8_what_a_command_writes_to_disks_is_bounded(place: Place, tried: Sandbox) -> None:
    """S8: the workspace as a whole, not each file."""
    command = place.python(WRITE, "1000", "a", place.tag, limits=WRITTEN, keep_stdin=True)
    running = await tried.start(command)
    finished = await running.wait(DEADLINE_S)
    assert finished is not None, "it was not ended"
    assert (finished.limit, finished.sampled) == ("written_bytes", True)
    assert finished.written > 64 << 20
    assert place.survivors() == []


async def test_s8_what_nobody_counted_counts_by_what_is_there(tried: Sandbox) -> None:
    """S8: of writers whom nobody waits for, in a workspace that is memory; while it runs, and at its end.

    Not on a disk, which others of this machine fill and empty meanwhile.
    """
    with memory_folder() as above:
        place = Place(above)
        for parts, stays, limit in (("2", "0", None), ("6", "20", "written_bytes")):
            environment = {"PATH": "/usr/bin:/bin", "PARTS": parts, "STAYS": stays}
            command = place.python(UNBURIED, limits=WRITTEN, environment=environment, account="one")
            finished = await tried.run(command, timeout_s=DEADLINE_S)
            assert finished.limit == limit
            assert finished.limit or finished.written >= 35 << 20
        with pytest.raises(SandboxError, match=r"that written_bytes allows; nothing was run"):
            await tried.run(command)


async def test_s8_a_workspace_in_memory_counts_as_memory(tried: Sandbox) -> None:
    """S8: a file system in memory that is not the command's own."""
    with memory_folder() as above:
        place = Place(above)
        command = place.python(WRITE, "300", "a", place.tag, limits=SHARED, keep_stdin=True)
        finished = await (await tried.start(command)).wait(DEADLINE_S)
        assert finished is not None, "it was not ended"
        assert (finished.limit, finished.sampled) == ("memory_bytes", True)


async def test_s8_the_commands_of_a_task_share_what_they_may_write(place: Place, tried: Sandbox) -> None:
    """S8: short ones too; another task has its own, and a refusal writes nothing."""
    # Below bubblewrap the last count is not an ordinary user's to read: what came after the last look may be missing.
    least = 30 << 20 if os.geteuid() == 0 else 20 << 20
    for name in "ab":
        finished = await tried.run(place.python(WRITE, "30", name, limits=WRITTEN, account="one"), timeout_s=DEADLINE_S)
        assert (finished.exit_code, finished.written >= least) == (0, True)
    third = place.python(WRITE, "30", "c", limits=WRITTEN, account="one", keep_stdin=True)
    finished = await (await tried.start(third)).wait(DEADLINE_S)
    assert finished is not None
    assert finished.limit == "written_bytes"
    before = sorted(path.name for path in place.root.iterdir())
    with pytest.raises(SandboxError, match=r"of 67,108,864 that written_bytes allows; nothing was run"):
        await tried.run(place.python(WRITE, "1", "d", limits=WRITTEN, account="one"))
    assert sorted(path.name for path in place.root.iterdir()) == before
    assert (await tried.run(place.python(WRITE, "1", "e", limits=WRITTEN, account="two"))).exit_code == 0


async def test_a_command_within_its_limits_names_none(place: Place, sandbox: Sandbox) -> None:
    finished = await sandbox.run(place.command("sh", "-c", "echo fine; exit 3", limits=LIMITS), timeout_s=DEADLINE_S)
    assert (finished.exit_code, finished.limit) == (3, None)


async def test_without_limits_none_are_set(place: Place, sandbox: Sandbox) -> None:
    unlimited = CommandLimits(processes=None, memory_bytes=None, file_bytes=None, cpu_s=None, written_bytes=None)
    finished = await sandbox.run(place.command("sh", "-c", "ulimit -d; ulimit -f; ulimit -t", limits=unlimited))
    assert finished.output.text().split() == ["unlimited"] * 3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(asyncio.run(meet(Path(os.path.realpath(folder)), "bubblewrap"))))
