"""HARDENING target 6: coverage-guided fuzzing of each parser finds no crash and no hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deadlines import HANG_S
from tests.fuzz.targets import ROOT, WATCHED, load, why_not

SLOW = {"claude_stream": 1_000, "connection": 300, "project_instructions": 1_000, "rollout_file": 500}
"""What does more with each input gets fewer of them."""
RUNS = 3_000
DEADLINE_S = HANG_S


def fuzzed(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", name, *options]
    return subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=DEADLINE_S,
    )


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("name", WATCHED)
def test_a_fuzzer_finds_nothing(name: str) -> None:
    """HARDENING target 6, D9, C19. The seed is fixed, so that a failure comes again; `make fuzz` throws dice."""
    runs = SLOW.get(name, RUNS)
    ran = fuzzed(name, f"-runs={runs}", "-seed=1")
    assert ran.returncode == 0, ran.stdout[-4_000:]
    assert f"Done {runs} runs" in ran.stdout
    # It is steered by our branches, and not blind.
    assert " cov: " in ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_fault_is_found_and_its_input_kept() -> None:
    """HARDENING target 6: a fuzzer that finds nothing would find something if there were anything."""
    ran = fuzzed("planted", "-runs=100000", "-seed=1")
    assert ran.returncode != 0
    assert "ValueError: found it" in ran.stdout
    path = Path(ran.stdout.partition("kept: ")[2].splitlines()[0])
    try:
        assert b"planted" in path.read_bytes()
        assert "found it" in fuzzed("planted", str(path)).stdout
    finally:
        path.unlink()


@pytest.mark.parametrize("name", WATCHED)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_the_fuzzer_begins_with_holds_also_where_there_is_none(name: str, data: st.DataObject) -> None:
    """HARDENING target 6 where there is no atheris: the same properties, of seeds cut and joined by hypothesis."""
    target = load(name)
    first, second = (data.draw(st.sampled_from(target.seeds)) for _ in range(2))
    word = data.draw(st.sampled_from([b"", *target.words]))
    target.fuzz(
        first[: data.draw(st.integers(0, len(first)))] + word + second[data.draw(st.integers(0, len(second))) :]
    )
