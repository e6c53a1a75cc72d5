"""Opening and closing leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rollout.faults import ROOT

MIB = 1024 * 1024


NIGHTLY = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.mark.parametrize("cycles", [pytest.param(200), pytest.param(1_000, marks=NIGHTLY)])
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_so_many_sessions_cost_no_descriptor_no_thread_no_process_and_no_memory(room: Path, cycles: int) -> None:
    """Target 8: after a warm-up; with tools, children, subscriptions, resumed ones and some closed while they run."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.durability.cycles", "60", str(cycles)],
        cwd=ROOT,
        env={**os.environ, "TERTULIA_HOME": str(room / "home")},
        capture_output=True,
        timeout=550,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stderr == b""
    before, after = json.loads(ran.stdout)
    for what in ("fds", "threads", "others", "children"):
        assert after[what] == before[what]
    assert after["children"] == []
    assert after["traced"] - before["traced"] <= MIB / 4
    assert after["objects"] - before["objects"] <= 100
    # What the system keeps for us is less exact: an allocator does not give everything back.
    assert after["kib"] - before["kib"] <= 8 * 1024
    sys.stdout.write(f"{cycles} cycles: {after['traced'] - before['traced']:,} bytes more\n")
