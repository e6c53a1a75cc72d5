"""Runs checks inside the sandbox, and writes their verdicts as one JSON line. Run as a program; standard library only.

Standard input has the jobs. Each check runs in a process of its own, with the workspace as its directory. It has
passed when `check.py` ran to its end: code of the workspace that ends the process early, with whatever exit code, does
not pass. What it prints is bounded, and what hangs is killed.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import sys
import types
from pathlib import Path
from typing import Any

_TAIL = 4_000
_POLL_S = 0.02
_LAST_READS = 64
"""How often the pipe is read after the end of a check: what it left behind may write for ever."""
_PASSED = b"passed"
_VERDICT = 3
"""The number of the pipe for the verdict in the process of a check."""


def _judge(job: dict[str, Any]) -> None:
    """Run the check in this process, which it ends. An exception ends it too, by its traceback and the exit code 1."""
    facts = types.ModuleType("eval_run")
    workspace, original = Path(job["workspace"]), Path(job["original"])
    facts.__dict__.update(job["facts"], workspace=workspace, original=original, run_tests=run_tests)
    facts.__dict__["changed_files"] = lambda: changed_files(workspace, original)
    sys.modules["eval_run"] = facts
    os.chdir(job["workspace"])
    sys.dont_write_bytecode = True
    sys.argv = [job["check"]]
    sys.path[:0] = [job["workspace"], os.path.dirname(job["check"])]
    runpy.run_path(job["check"], run_name="__main__")
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(_VERDICT, _PASSED)
    os._exit(0)


def changed_files(workspace: Path, original: Path) -> list[str]:
    """The names of files that were added, changed or removed; not what git and Python keep for themselves."""
    before, after = _contents(original), _contents(workspace)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _contents(folder: Path) -> dict[str, bytes]:
    own = {".git", "__pycache__"}
    paths = [path for path in folder.rglob("*") if path.is_file() and not own & {*path.relative_to(folder).parts}]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def run_tests(*names: str) -> None:
    """Run tests of unittest, by the names of their modules; AssertionError where one fails or there is none."""
    # Here: most checks run none.
    import unittest

    result = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromNames(names))
    if not result.testsRun or not result.wasSuccessful():
        raise AssertionError("a test fails" if result.testsRun else "there is no test")


def _start(job: dict[str, Any]) -> tuple[int, int, int]:
    """The process of a check, where it prints, and where its verdict comes from."""
    output, output_end = os.pipe()
    verdict, verdict_end = os.pipe()
    process = os.fork()
    if process == 0:
        os.setsid()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(verdict_end, _VERDICT)
        os.dup2(output_end, 1)
        os.dup2(output_end, 2)
        os.closerange(_VERDICT + 1, 256)
        _judge(job)
    os.close(output_end)
    os.close(verdict_end)
    return process, output, verdict


def _follow(process: int, output: int) -> bytes:
    """Wait for its end. Returns the end of what it printed; what it left behind may hold the pipe, and is not waited
    for."""
    tail, is_over, left = b"", False, _LAST_READS
    while left and not (is_over and not _is_ready(output, 0)):
        left -= is_over
        is_over = is_over or os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        if _is_ready(output, 0 if is_over else _POLL_S):
            piece = os.read(output, 65_536)
            tail = (tail + piece)[-_TAIL:]
            if not piece:
                os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
                break
    return tail


def _is_ready(pipe: int, wait_s: float) -> bool:
    return bool(select.select([pipe], [], [], wait_s)[0])


def run_job(job: dict[str, Any]) -> dict[str, str]:
    """The verdict on one job: `passed`, `failed` or `hung`, and the end of what the check printed."""
    process, output, verdict = _start(job)
    late: list[int] = []

    def stop(number: int, frame: object) -> None:
        late.append(number)
        os.killpg(process, signal.SIGKILL)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, job["timeout_s"])
    tail = _follow(process, output)
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Its process is still there, as a zombie, so that the number of the group is its own.
    os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    os.set_blocking(verdict, False)
    has_passed = _is_ready(verdict, 0) and os.read(verdict, 16) == _PASSED
    os.close(output)
    os.close(verdict)
    word = "hung" if late else "passed" if has_passed and status == 0 else "failed"
    return {"verdict": word, "output": tail.decode("utf-8", "replace")}


def main() -> None:
    """Run the jobs of standard input, one after the other."""
    jobs = json.load(sys.stdin)
    sys.stdout.write(json.dumps([run_job(job) for job in jobs]) + "\n")


if __name__ == "__main__":
    main()
