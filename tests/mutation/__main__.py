"""The referee of the suite: a seeded sample of mutants, each run against the tests that take its line.

`python -m tests.mutation draw [NUMBER]` draws the sample anew (tests/mutation/sample.json); `renew` draws only in place
of mutants whose code is gone; `record` runs the tests of the four stages once and notes which test takes which line;
`run` tries every mutant of the sample that has no result yet, so it can be stopped and begun again; `keep` writes the
results into the sample as those to compare with; `score` prints them. Nothing of the tree is changed: a mutant lives in
a copy below .mutants.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tests.mutation.operators import Mutant, mutants, mutated

STAGES = ("policy", "scheduler", "history", "rollout")
FOLDERS = (*STAGES, "delegation", "conversation")
"""Folders of tests that run these stages inside the test's own process."""
SEED = 18
CPU_S = 120
"""Of processor time, not of the clock: only a mutant that loops uses it up."""

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "src" / "tertulia"
_SAMPLE = Path(__file__).with_name("sample.json")
_WORK = _ROOT / ".mutants"
_MAP = _WORK / "lines"
_FAILING = _WORK / "failing.txt"
"""Tests that fail without any mutant: they say nothing."""
_RESULTS = _WORK / "results.jsonl"
_COPY = _WORK / "src"


def draw(number: str = "300") -> None:
    """As many from each stage, of those whose name is theirs alone."""
    everything = list(mutants(_PACKAGE, STAGES))
    names = Counter(mutant.name for mutant in everything)
    dice, sample = random.Random(SEED), list[dict[str, Any]]()
    for stage in STAGES:
        choice = [mutant for mutant in everything if mutant.stage == stage and names[mutant.name] == 1]
        drawn = dice.sample(choice, int(number) // len(STAGES))
        sample += [{"name": mutant.name, "text": mutant.text} for mutant in drawn]
    _write(sample)


def renew() -> None:
    """Others of the same stage in place of those whose code is gone; one that moved gets its present name."""
    names, dice = Counter(mutant.name for mutant in _everything()), random.Random(SEED)
    found = [(wanted, _find(wanted)) for wanted in _read()]
    taken, sample = {mutant.name for _, mutant in found if mutant}, list[dict[str, Any]]()
    for wanted, mutant in found:
        if mutant:
            sample.append({**wanted, "name": mutant.name, "text": mutant.text})
            continue
        stage = wanted["name"].partition(":")[0]
        free = [other for other in _everything() if other.stage == stage and names[other.name] == 1]
        other = dice.choice([other for other in free if other.name not in taken])
        taken.add(other.name)
        sample.append({"name": other.name, "text": other.text})
    _write(sample)


def record() -> None:
    """Which test takes which line."""
    _WORK.mkdir(exist_ok=True)
    config = _WORK / "coverage.ini"
    stages = ",".join(f"tertulia.{stage}" for stage in STAGES)
    config.write_text(f"[run]\nsource_pkgs = {stages}\ndata_file = {_MAP}\n")
    options = ["-q", "-p", "no:cacheprovider", "--cov", f"--cov-config={config}", "--cov-report=", "--cov-context=test"]
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{folder}" for folder in FOLDERS)]
    environment = {**os.environ, "TERTULIA_COVERAGE": "1"}
    output = subprocess.run(command, cwd=_ROOT, env=environment, check=False, text=True, stdout=subprocess.PIPE).stdout
    failed = [line.split(" ", 2)[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    _FAILING.write_text("\n".join(failed))
    sys.stdout.write(output[-2_000:])


def run() -> None:
    """Every mutant without a result, one after the other."""
    shutil.rmtree(_COPY, ignore_errors=True)
    shutil.copytree(_PACKAGE, _COPY / "tertulia")
    tests, done = _Tests(), {result["name"] for result in _results()}
    for wanted in _read():
        if wanted["name"] in done:
            continue
        mutant = _find(wanted)
        result = {"name": wanted["name"], **(_try(mutant, tests) if mutant else {"outcome": "gone"})}
        with _RESULTS.open("a") as file:
            file.write(json.dumps(result) + "\n")
    score()


def keep() -> None:
    """The results become those that later ones are compared with."""
    outcomes = {result["name"]: result["outcome"] for result in _results()}
    _write([{**wanted, "before": outcomes.get(wanted["name"], "not tried")} for wanted in _read()])


def score() -> None:
    """By stage; and every mutant that a test found before and none finds now."""
    outcomes = {result["name"]: result["outcome"] for result in _results()}
    lines = list[str]()
    for stage in (*STAGES, ""):
        here = [wanted for wanted in _read() if wanted["name"].startswith(stage)]
        now = Counter(outcomes.get(wanted["name"], "not tried") for wanted in here)
        both = [wanted for wanted in here if outcomes.get(wanted["name"]) in {"killed", "survived"}]
        before = sum(wanted.get("before") == "killed" for wanted in both)
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(now.items()))
        lines.append(f"{stage or 'all':10} {text}; of these {len(both)} were killed before: {before}")
    lines += [f"survived   {name}" for name, outcome in outcomes.items() if outcome == "survived"]
    for wanted in _read():
        if wanted.get("before") == "killed" and outcomes.get(wanted["name"]) == "survived":
            lines.append(f"LOST       {wanted['name']}: {wanted['text']}")
    sys.stdout.write("\n".join([*lines, ""]))


class _Tests:
    """Which tests take a line, those that take the fewest lines first: they say most exactly what is wrong."""

    def __init__(self) -> None:
        self._data = CoverageData(str(_MAP))
        self._data.read()
        self._files = {name.partition("/src/tertulia/")[2]: name for name in self._data.measured_files()}
        self._failing = {"", *_FAILING.read_text().splitlines()}
        self._weights: Counter[str] = Counter()
        for name in self._files.values():
            for contexts in self._data.contexts_by_lineno(name).values():
                self._weights.update({_test(context) for context in contexts})

    def of(self, mutant: Mutant) -> list[str]:
        """Of the lines of its text, or of the nearest line above: a statement's first line counts for all of it."""
        contexts = self._data.contexts_by_lineno(self._files[mutant.path])
        tests = {
            _test(context) for line in range(mutant.line, mutant.last_line + 1) for context in contexts.get(line, [])
        }
        above = mutant.line
        while not tests - self._failing and above > mutant.line - 8:
            above -= 1
            tests = {_test(context) for context in contexts.get(above, [])}
        return sorted(tests - self._failing, key=lambda test: (self._weights[test], test))


def _test(context: str) -> str:
    return context.rpartition("|")[0]


def _try(mutant: Mutant, tests: _Tests) -> dict[str, Any]:
    chosen = tests.of(mutant)
    if not chosen:
        return {"outcome": "survived", "tests": 0}
    place, names = _COPY / "tertulia" / mutant.path, _WORK / "tests.txt"
    source = place.read_text()
    names.write_text("\n".join(chosen))
    place.write_text(mutated(source, mutant))
    try:
        code, output = _pytest(names)
    finally:
        place.write_text(source)
    if code in {4, 5} and "not found" in output:
        return {"outcome": "error", "tests": len(chosen), "by": output[-300:]}
    by = next((line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))), f"exit {code}")
    return {"outcome": "survived" if code == 0 else "killed", "tests": len(chosen), "by": by if code else ""}


def _pytest(names: Path) -> tuple[int, str]:
    path = f"{_COPY}{os.pathsep}{_ROOT}"
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options, f"@{names}"]
    # Nothing compiled is written, or the next mutant of the same size and second would not be read.
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen(
        command,
        cwd=_ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    resource.prlimit(child.pid, resource.RLIMIT_CPU, (CPU_S, CPU_S))
    try:
        output, _ = child.communicate(timeout=CPU_S * 2)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        output, _ = child.communicate()
    return child.returncode, output


def _find(wanted: dict[str, Any]) -> Mutant | None:
    """The same mutant in this tree: by function and text, by text alone, or by its name."""
    stage, function, operator, _ = wanted["name"].split(":")
    alike = [mutant for mutant in _everything() if (mutant.stage, mutant.operator) == (stage, operator)]
    same_text = [mutant for mutant in alike if mutant.text == wanted["text"]]
    here = [mutant for mutant in same_text if mutant.function == function]
    named = [mutant for mutant in alike if mutant.name == wanted["name"]]
    exact = [mutant for mutant in here if mutant.name == wanted["name"]]
    for choice in (exact, here, same_text, named):
        if len(choice) == 1:
            return choice[0]
    return None


def _everything() -> Iterable[Mutant]:
    if not _known:
        _known.extend(mutants(_PACKAGE, STAGES))
    return _known


_known: list[Mutant] = []


def _read() -> list[dict[str, Any]]:
    return json.loads(_SAMPLE.read_text())


def _write(sample: list[dict[str, Any]]) -> None:
    _SAMPLE.write_text("[\n" + ",\n".join(json.dumps(wanted) for wanted in sample) + "\n]\n")


def _results() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _RESULTS.read_text().splitlines()] if _RESULTS.exists() else []


if __name__ == "__main__":
    {"draw": draw, "renew": renew, "record": record, "run": run, "keep": keep, "score": score}[sys.argv[1]](
        *sys.argv[2:]
    )
