"""Benchmarks: found in a checkout, held against their targets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest

from tertulia.cli.inspect.bench import BenchmarkRow
from tertulia.cli.inspect.bench_compare import find_benchmarks
from tests.cli.running import Shell
from tests.tables import each_row


@each_row(
    ("value", "target", "met"),
    [
        (1.2, "<= 1.2", True),
        (1.3, "<= 1.2", False),
        (5, ">= 5", True),
        (4, ">= 5", False),
        (1, "< 1", False),
        (2000, "> 1,999", True),
        (1, "", None),
        (1, "as small as possible", None),
    ],
)
def test_a_target_is_met_missed_or_not_there(value: float, target: str, met: bool | None) -> None:
    assert BenchmarkRow("name", value, "ms", target).met is met


def test_the_folder_is_the_one_of_the_checkout(tmp_path: Path) -> None:
    source = tmp_path / "src" / "tertulia" / "cli" / "inspect" / "bench.py"
    (tmp_path / "bench").mkdir()
    with pytest.raises(click.UsageError, match="source checkout"):
        find_benchmarks(source)
    (tmp_path / "pyproject.toml").touch()
    assert find_benchmarks(source) == tmp_path / "bench"


@pytest.fixture
def measures(shell: Shell, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Two tiny benchmarks in a folder that no other test has imported."""
    folder = shell.folder / f"measures_{abs(hash(request.node.name))}"
    folder.mkdir()
    (folder / "fast.py").write_text("def run(): return [('a thing', 1234.5, 'ms'), ('another', 0.5, 'x', '<= 1')]")
    (folder / "slow.py").write_text("def run(): return [('a third', 2, 'x', '<= 1')]")
    monkeypatch.setattr("tertulia.cli.inspect.bench.find_benchmarks", lambda source: folder)
    monkeypatch.setattr("sys.path", [*sys.path])
    return folder


@pytest.mark.usefixtures("measures")
def test_rows_are_shown_with_their_targets(shell: Shell) -> None:
    ran = shell.run("bench", "fast")
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()] == [
        ["a", "thing", "1,234", "ms"],
        ["another", "0.50", "x", "<=", "1", "met"],
    ]
    assert ran.err == "fast, 1 of 1\n"


@pytest.mark.usefixtures("measures")
def test_a_missed_target_is_exit_code_1(shell: Shell) -> None:
    ran = shell.run("bench")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].endswith("missed")
    assert ran.err == "fast, 1 of 2\nslow, 2 of 2\n"


@pytest.mark.usefixtures("measures")
def test_rows_as_json(shell: Shell) -> None:
    ran = shell.run("bench", "--json", "fast")
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {"benchmark": "fast", "name": "a thing", "value": 1234.5, "unit": "ms", "target": "", "met": None},
        {"benchmark": "fast", "name": "another", "value": 0.5, "unit": "x", "target": "<= 1", "met": True},
    ]


@pytest.mark.usefixtures("measures")
def test_an_unknown_benchmark_is_refused_before_any_runs(shell: Shell) -> None:
    ran = shell.run("bench", "fast", "nope")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no benchmark 'nope', only fast, slow" in ran.err


def test_this_checkout_has_benchmarks(shell: Shell) -> None:
    ran = shell.run("bench", "nope")
    assert ran.code == 2
    assert "kernel" in ran.err
