"""`make torture`: everything that `make test` only samples. `python -m tests.torture WORKERS FUZZ_SECONDS`.

Each test is told when it ends; at the end stands what ran, of which file, and how long it took.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

PATIENCE_S = 1800
"""Of a test that says nothing of its own."""


class Told:
    """What ran, by file."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.outcomes: dict[str, Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcomes.setdefault(file, Counter())[report.outcome] += 1

    def lines(self) -> list[str]:
        """The longest first."""
        return [
            f"{self.seconds[file]:8.1f} s  {file}: " + ", ".join(f"{count} {how}" for how, count in outcomes.items())
            for file, outcomes in sorted(self.outcomes.items(), key=lambda pair: -self.seconds[pair[0]])
        ]


def storms(workers: str, ran: Told) -> int:
    """Every test that grows, side by side."""
    os.environ["TERTULIA_TORTURE"] = "1"
    options = ["-m", "torture or not torture", "-v", "--numprocesses", workers, "--dist", "loadfile"]
    return pytest.main([*options, f"--timeout={PATIENCE_S}"], plugins=[ran])


def main(workers: str, fuzz_s: str) -> int:
    """Zero if nothing was found."""
    ran, begun = Told(), time.monotonic()
    found = storms(workers, ran)
    fuzzed = time.monotonic()
    fuzzers = [sys.executable, "-m", "tests.fuzz", "all", f"-max_total_time={fuzz_s}", "-verbosity=0"]
    found_by_chance = subprocess.run(fuzzers, check=False, cwd=Path(__file__).parents[1]).returncode
    ended = time.monotonic()
    sys.stdout.write(
        "\n".join(
            [
                "What ran:",
                *ran.lines(),
                f"{ended - fuzzed:8.1f} s  fuzzers: {'something' if found_by_chance else 'nothing'} was found",
                f"{ended - begun:8.1f} s  in all, on {workers} processes: "
                + ("FAILED" if found or found_by_chance else "passed"),
                "",
            ]
        )
    )
    return 1 if found or found_by_chance else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
