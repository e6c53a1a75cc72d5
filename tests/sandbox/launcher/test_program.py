"""The launcher as a process: what it does when the one it works for is gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.sandbox.process_tree import descendants
from tertulia.sandbox.sandbox import Sandbox
from tests.sandbox.confined import DEADLINE_S, ROOT, Place, need
from tests.sandbox.kept import above, is_running

CODE = """
import sys; from tertulia.sandbox.launcher.program import serve
serve(int(sys.argv[1]), int(sys.argv[2]), confines=False)
"""


class Started:
    """A guardian with its launcher, and our ends of their lines."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gone, living = os.pipe()
        with theirs:
            line = [sys.executable, "-c", CODE, str(theirs.fileno()), str(living)]
            fds = [theirs.fileno(), living]
            assert (
                subprocess.run(line, env={"PYTHONPATH": str(ROOT / "src")}, pass_fds=fds, check=False).returncode == 0
            )
        os.close(living)
        self.guardian, self.launcher = map(int, os.read(self.gone, 100).split())
        while sum(1 for _ in descendants(self.launcher)) < 4:
            pass

    def ends(self) -> bool:
        """Whether nothing is left before the deadline."""
        poll = select.poll()
        poll.register(self.gone, 0)
        ended = bool(poll.poll(DEADLINE_S * 1000))
        os.close(self.gone)
        return ended


def test_it_ends_with_its_keepers_when_its_line_does() -> None:
    started = Started()
    below = [pid for pid, _ in descendants(started.guardian)]
    assert started.launcher in below
    started.line.close()
    assert started.ends()
    assert [pid for pid in below if is_running(pid)] == []


def test_l5_a_product_that_is_killed_while_it_starts_leaves_no_word_and_nothing_running(tmp_path: Path) -> None:
    """L5: nobody reads any more which the guardian and the launcher are."""
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    unread, gone = os.pipe()
    os.close(unread)
    still, there = os.pipe()
    with theirs, (tmp_path / "said").open("wb") as said:
        started = [sys.executable, "-c", CODE, str(theirs.fileno()), str(gone)]
        fds = [theirs.fileno(), gone, there]
        subprocess.run(started, env={"PYTHONPATH": str(ROOT / "src")}, pass_fds=fds, stderr=said, check=True)
    os.close(gone)
    os.close(there)
    poll = select.poll()
    poll.register(still, 0)
    assert not poll.poll(100), "it serves, as long as its line is there"
    line.close()
    assert poll.poll(DEADLINE_S * 1000), "something still runs"
    os.close(still)
    assert (tmp_path / "said").read_bytes() == b""


def test_a_signal_from_the_terminal_is_not_meant_for_it() -> None:
    started = Started()
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        os.kill(started.launcher, number)
        os.kill(started.guardian, number)
    assert is_running(started.launcher)
    assert is_running(started.guardian)
    started.line.close()
    assert started.ends()


@pytest.mark.parametrize("confines", [False, True])
async def test_s8_an_adopted_child_that_ends_is_buried_at_once(place: Place, confines: bool) -> None:
    """S8: a zombie counts as a process of its user, and a server may leave one every second for days."""
    if confines:
        need("landlock")
    sandbox = Sandbox(tier="landlock" if confines else "bubblewrap", clock=SystemClock())
    command = place.python(ORPHANS, keep_stdin=True)
    if not confines:
        command = replace(command, confinement=replace(command.confinement, mode="danger_full_access"))
    running = await sandbox.start(command)
    tier = sandbox._tier if confines else sandbox._unconfined
    _, launcher = above(tier._launcher)
    await place.until(lambda: b"made" in running._all.output().head)
    assert len(running._all.output().head.split()[:-1]) == 20
    # By those whom the launcher sees: in a namespace their numbers are others.
    await place.until(lambda: all(threads for _, threads in descendants(launcher)))
    assert running.finished is None
    await running.kill()
    assert is_running(launcher)
    await sandbox.close()


ORPHANS = """
import os, sys
for _ in range(20):
    reading, writing = os.pipe()
    if os.fork() == 0:
        orphan = os.fork()
        if orphan:
            print(orphan, flush=True)
            os._exit(0)
        os.close(writing)
        # Ends when it has been orphaned.
        os.read(reading, 1)
        os._exit(0)
    os.wait()
    os.close(writing)
    os.close(reading)
print("made", flush=True)
sys.stdin.read()
"""


def test_it_brings_in_little() -> None:
    """It is forked twice for each command."""
    code = "import sys; import tertulia.sandbox.launcher.program; print(*sys.modules)"
    line = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}"]
    modules = subprocess.run(line, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    assert not {"asyncio", "msgspec", "subprocess", "logging"} & {*modules}
