"""The official conformance suite in server mode: it calls `server.py`, which is our serving layer."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile

from tests.conformance.suite import NODE, ROOT, SUITE, Outcome
from tests.deadlines import HANG_S

EXPECTED = ROOT / "tests/conformance/expected-server-failures.yml"
_SCENARIO = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


def run_server(era: str) -> Outcome:
    """All scenarios of an era."""
    command = (sys.executable, "-m", "tests.conformance.server")
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with server, tempfile.TemporaryDirectory() as results:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            suite = (
                *(str(NODE), str(SUITE), "server", "--url", server.stdout.readline().strip(), "--suite", "all"),
                *("--spec-version", era, "--expected-failures", str(EXPECTED), "--output-dir", results),
            )
            done = subprocess.run(suite, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        finally:
            server.stdin.close()
            server.wait(timeout=HANG_S)
    counts = {name: (int(passed), int(failed)) for name, passed, failed in _SCENARIO.findall(done.stdout)}
    passed = {name: checks for name, (checks, failed) in counts.items() if not failed}
    failed = set(counts) - set(passed)
    # The suite compares for itself, warnings included.
    surprises = {"see below"} if done.returncode or not counts else set[str]()
    return Outcome(f"{era} as a server", passed, failed, surprises, done.stdout)
