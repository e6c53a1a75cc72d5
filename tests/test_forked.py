"""What is forked from a process that has the program imported is a process like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.deadlines import HANG_S
from tests.forked import PIPES, AsyncProgram, ForkedProgram, run_program


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8", "NO_COLOR": "1"}


@pytest.mark.parametrize("words", [["sessions", "ls", "--json"], ["exec", "-m", "no", "hi"], ["mcp", "ls"], ["-h"]])
def test_it_writes_and_ends_as_the_program_does(tmp_path: Path, words: list[str]) -> None:
    real = subprocess.run(
        [sys.executable, "-m", "tertulia", *words],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    ran = run_program(*words, cwd=tmp_path, env=environment(tmp_path))
    assert (ran.returncode, ran.stdout, ran.stderr) == (real.returncode, real.stdout, real.stderr)


def test_its_end_is_told_also_where_it_is_killed(tmp_path: Path) -> None:
    with ForkedProgram(["app-server", "-m", "scripted/tour"], cwd=tmp_path, env=environment(tmp_path), **PIPES) as one:
        assert one.poll() is None
        deadline = time.monotonic() + HANG_S
        # It goes there by itself, after it was forked.
        while Path(f"/proc/{one.pid}/cwd").resolve() != tmp_path.resolve():
            assert time.monotonic() < deadline
            os.sched_yield()
        with pytest.raises(subprocess.TimeoutExpired):
            one.wait(0)
        one.kill()
        assert one.wait(HANG_S) == -signal.SIGKILL


async def test_a_loop_reads_and_writes_it(tmp_path: Path) -> None:
    one = await AsyncProgram.start("app-server", "-m", "scripted/tour", cwd=tmp_path, env=environment(tmp_path))
    one.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    assert b'"id":1' in await one.stdout.readline()
    out, err = await one.communicate()
    assert (out, err, one.returncode) == (b"", b"", 0)
    with pytest.raises(ProcessLookupError):
        one.kill()
