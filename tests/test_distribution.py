"""Which process of a parallel run gets which tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.deadlines import HANG_S
from tests.distribution import ROOT, unit_of

CONFTEST = """
from pathlib import Path
from tests import distribution

distribution.ROOT = Path(__file__).parent

def pytest_xdist_make_scheduler(config, log):
    return distribution.FileScheduling(config, log)

def pytest_collection_modifyitems(config, items):
    distribution.longest_first(items)
    with open("order", "a") as order:
        order.write(" ".join(dict.fromkeys(item.path.name for item in items)) + "\\n")
"""
GROUP = """
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("g"),
]
"""
TESTS = """
import os
import pytest
{mark}

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    with open("ran", "a") as ran:
        ran.write(f"{{os.getpid()}} {{__file__.rpartition('/')[2]}} {{number}}\\n")
"""


def test_a_file_is_run_by_one_process_in_its_order_and_so_are_the_files_of_a_group(tmp_path: Path) -> None:
    """Groups of xdist itself had no effect with a newer pytest, and all fixtures were made three times."""
    marks = dict.fromkeys(("test_a.py", "test_b.py", "test_c.py", "test_d.py"), "")
    marks["test_b.py"] = marks["test_d.py"] = (
        'pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.xdist_group("g"),\n]'
    )
    for name, mark in marks.items():
        (tmp_path / name).write_text(TESTS.format(mark=mark))
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\nmarkers = slow\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:schemathesis"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert len(ran) == 16
    # As they are handed out. Which of the two processes is quicker is another matter.
    orders = (tmp_path / "order").read_text().splitlines()
    assert set(orders) == {"test_b.py test_d.py test_a.py test_c.py"}, "what is slow begins"
    processes = {name: {process for process, file, _ in ran if file == name} for name in marks}
    assert all(len(of_file) == 1 for of_file in processes.values())
    assert processes["test_b.py"] == processes["test_d.py"]
    for name in marks:
        assert [number for _, file, number in ran if file == name] == ["0", "1", "2", "3"]


def test_every_group_is_one_of_whole_files() -> None:
    """A mark of a single test would have no effect."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if re.search(r"mark\.xdist_group\(\"", path.read_text()) and path != Path(__file__):
            assert unit_of(str(path.relative_to(ROOT))) != str(path.relative_to(ROOT)), path
