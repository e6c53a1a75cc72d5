"""The launcher as a process: what it does when the one it works for is gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tertulia.sandbox.process_tree import descendants
from tests.sandbox.confined import ROOT

CODE = "import sys; from tertulia.sandbox.launcher import serve; serve(int(sys.argv[1]), confines=False)"


def start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        line = [sys.executable, "-c", CODE, str(theirs.fileno())]
        process = subprocess.Popen(line, env={"PYTHONPATH": str(ROOT / "src")}, pass_fds=[theirs.fileno()])
    return process, ours


def test_it_ends_with_its_keeper_when_its_line_does() -> None:
    process, line = start()
    while sum(1 for _ in descendants(process.pid)) < 2:
        pass
    below = [pid for pid, _ in descendants(process.pid)]
    line.close()
    assert process.wait(20) == 0
    while any(Path("/proc", str(pid)).exists() for pid in below):
        pass


def test_a_signal_from_the_terminal_is_not_meant_for_it() -> None:
    process, line = start()
    while sum(1 for _ in descendants(process.pid)) < 2:
        pass
    os.kill(process.pid, signal.SIGINT)
    assert process.poll() is None
    line.close()
    assert process.wait(20) == 0


def test_it_brings_in_little() -> None:
    """It is forked twice for each command."""
    code = "import sys; import tertulia.sandbox.launcher; print(*sys.modules)"
    line = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}"]
    modules = subprocess.run(line, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    assert not {"asyncio", "msgspec", "subprocess", "logging"} & {*modules}
