"""Every example runs by itself, without a key or a network, and is short enough to be read.

An example checks its own result and exits with something else than 0 when it is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANG_S

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
MAX_LINES = 59
TIMEOUT_S = HANG_S  # below pytest's own, so that what the example printed is shown

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def test_examples_are_numbered_from_one_without_a_gap() -> None:
    assert EXAMPLES, "examples/ holds no NN_name.py"
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))


@each_example
def test_an_example_is_shorter_than_60_lines(example: Path) -> None:
    lines = len(example.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{example.name} has {lines} lines: show one thing, or make it two examples"


@each_example
def test_an_example_runs_and_ends_well(example: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "TERTULIA_HOME": str(tmp_path / "tertulia")}
    (tmp_path / "work").mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(example)],
        cwd=tmp_path / "work",
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **home},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, f"{example.name} exited with {run.returncode}:\n{run.stdout}"
