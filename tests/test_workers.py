"""The workers of a parallel run share what one process has imported, and none is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.deadlines import HANG_S
from tests.workers import ROOT, fork_workers

CONFTEST = """
from tests.workers import fork_workers

def pytest_xdist_setupnodes(config, specs):
    fork_workers(specs, config.args, config.invocation_params.dir)
"""
TESTS = """
import os
import pytest
IMPORTED_IN = os.getpid()

@pytest.mark.parametrize("text", ["a\\nb"], ids=repr)
def test_it(text):
    with open("ran", "a") as ran:
        ran.write(f"{os.getpid()} {IMPORTED_IN}\\n")
    if KILLED and not os.path.exists("killed"):
        open("killed", "x").close()
        os.kill(os.getpid(), 9)
"""


def test_all_workers_but_one_are_forked_from_a_process_that_imported_the_tests(tmp_path: Path) -> None:
    """One of them is killed: another takes its place."""
    for number in range(3):
        (tmp_path / f"test_{number}.py").write_text(TESTS.replace("KILLED", str(number == 1)))
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile", "-p", "no:schemathesis"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert len(ran) == 4
    shared = {imported_in for worker, imported_in in ran if worker != imported_in}
    assert len(shared) == 1
    assert len({imported_in for _, imported_in in ran}) <= 2
    # They ended before the run did: whichever process has such a number now, it works somewhere else.
    for number in (*shared, *(worker for worker, _ in ran)):
        place = Path(f"/proc/{number}/cwd")
        assert not place.exists() or place.resolve() != tmp_path


def test_two_workers_import_for_themselves() -> None:
    specs = ["popen", "popen"]
    fork_workers(specs, [], ROOT)
    assert specs == ["popen", "popen"]
