"""Issue 24, 7: results are appended as they come; a torn line is dropped, and one process writes at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.errors import BusyError, InvalidParamsError
from tertulia.evals.results import ResultsFile, read_results
from tertulia.evals.suite import Suite, load_suite
from tests.evals.suites import record, write_task


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    write_task(tmp_path / "suite", "a")
    return load_suite(tmp_path / "suite")


def test_a_torn_last_line_is_dropped_and_the_next_run_follows_the_whole_ones(tmp_path: Path, suite: Suite) -> None:
    path = tmp_path / "results.jsonl"
    version = suite.tasks[0].fingerprint
    with ResultsFile(path, suite) as results:
        results.add(record("a", task_fingerprint=version))
    with path.open("ab") as file:
        file.write(b'{"task":"a","task_fing')
    assert [one.repeat for one in read_results(path)] == [1]
    with ResultsFile(path, suite) as results:
        results.add(record("a", repeat=2, task_fingerprint=version))
        results.add(record("a", "wrong", repeat=1, task_fingerprint=version))
    found = {one.repeat: one.outcome for one in read_results(path)}
    assert found == {1: "wrong", 2: "passed"}, "of a run that was done again the last counts"
    assert path.read_bytes().count(b"\n") == 4
    assert path.stat().st_mode & 0o077 == 0, "answers may be private"


def test_two_cannot_write_one_file_at_once(tmp_path: Path, suite: Suite) -> None:
    path = tmp_path / "results.jsonl"
    with ResultsFile(path, suite):
        before = path.read_bytes()
        with pytest.raises(BusyError, match="another `tertulia eval` writes this file"), ResultsFile(path, suite):
            pass
        assert path.read_bytes() == before
    with ResultsFile(path, suite) as results:
        assert results.records == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"my notes", "it is another file"),
        (b"my notes\n", "line 1: not JSON"),
        (b'{"tertulia_eval":9,"suite":""}\n', "another version of Tertulia"),
        (b'{"tertulia_eval":1,"suite":""}\n{"task":"a"}\n', "line 2: "),
        (b'{"tertulia_eval":1,"suite":""}\nnothing\n{}\n', "line 2: not JSON"),
    ],
)
def test_a_file_that_is_no_result_is_refused_by_its_line_and_stays(
    content: bytes, expected: str, tmp_path: Path, suite: Suite
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidParamsError, match=expected) as refusal, ResultsFile(path, suite):
        pass
    assert str(path) in refusal.value.message
    assert path.read_bytes() == content


def test_runs_of_another_version_of_a_task_are_not_mixed_with_new_ones(tmp_path: Path, suite: Suite) -> None:
    path = tmp_path / "results.jsonl"
    with ResultsFile(path, suite) as results:
        results.add(record("a", task_fingerprint="an older one"))
    with pytest.raises(InvalidParamsError, match="another version of the task a"), ResultsFile(path, suite):
        pass
