"""The guard of the hot paths: what it counts, what it says of a change, and the figures themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from bench.hot_paths.figures import VERSION, Verdict, accept, judge, load
from bench.hot_paths.paths import HOT_PATHS
from tests.deadlines import HANG_S
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
PASS = "a redaction pass over an event"


def guard(*options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench.hot_paths", *options]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the figures are those of Linux: other loops take other steps")
def test_no_hot_path_got_dearer() -> None:
    """`make hot-paths ACCEPT=--accept` accepts what is counted now."""
    run = guard()
    assert run.returncode == 0, run.stdout + run.stderr
    for line in run.stdout.splitlines():
        if not line.startswith("same"):
            warnings.warn(line, stacklevel=1)


@each_row(
    "counted, kind, sentence",
    [
        (100, "same", "p: 100 instructions, +0.0 % of 100"),
        (103, "same", "p: 103 instructions, +3.0 % of 100"),
        (104, "dearer", "p: 104 instructions, +4.0 % of 100"),
        (96, "cheaper", "p: 96 instructions, -4.0 % of 100"),
    ],
)
def test_a_count_is_judged_by_its_figure(counted: int, kind: str, sentence: str) -> None:
    (verdict,) = judge({"p": counted}, {"p": 100})
    assert (verdict.kind, str(verdict), verdict.fails) == (kind, sentence, kind == "dearer")


def test_a_path_without_a_figure_is_new_and_a_figure_without_a_path_is_refused() -> None:
    new, gone = judge({"new": 1}, {"gone": 2})
    assert (new.kind, new.fails) == ("new", False)
    assert gone == Verdict("gone", "gone", 0, 2)
    assert gone.fails


def test_a_path_that_got_dearer_is_named_and_one_command_accepts_it(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    accepted = guard(PASS, "--accept", "--figures", str(file))
    assert accepted.returncode == 0, accepted.stderr
    figure = load(file)[VERSION][PASS]
    assert guard(PASS, "--figures", str(file)).stdout.startswith(f"same    {PASS}: {figure}")
    file.write_text(json.dumps({VERSION: {PASS: figure * 9 // 10}}))
    dearer = guard(PASS, "--figures", str(file))
    assert dearer.returncode == 1
    assert dearer.stdout.startswith(f"dearer  {PASS}: ")
    assert dearer.stdout.endswith("accept the new figures: make hot-paths ACCEPT=--accept\n")


def test_what_is_accepted_for_one_python_voids_the_changed_figures_of_others(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"3.0": {"a": 10, "b": 10}, VERSION: {"a": 20, "b": 20}}))
    accept(judge({"a": 40, "b": 20}, load(file)[VERSION]), file)
    assert load(file) == {"3.0": {"b": 10}, VERSION: {"a": 40, "b": 20}}


def test_an_unknown_path_is_refused_with_the_names_of_all() -> None:
    run = guard("no such path")
    assert run.returncode == 2
    assert all(path.name in run.stderr for path in HOT_PATHS)


COUNT = """
import threading
from bench.hot_paths.instructions import InstructionCounter

def work():
    for number in range(1000):
        str(number)

counter = InstructionCounter()
counter.start()
totals = [counter.total]
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    totals.append(counter.total)
work()
totals.append(counter.total)
counter.stop()
print(*(after - before for before, after in zip(totals, totals[1:])))
"""


def test_instructions_of_all_threads_are_counted_and_always_the_same() -> None:
    """In a process of its own: coverage counts by the same means."""
    run = subprocess.run(
        [sys.executable, "-c", COUNT], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    first, second, alone = map(int, run.stdout.split())
    assert alone > 5_000
    assert first > alone
    assert abs(first - second) < 100
