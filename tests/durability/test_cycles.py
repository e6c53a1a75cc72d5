"""Opening and closing leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rollout.faults import ROOT

MIB = 1024 * 1024


TORTURE = [pytest.mark.torture, pytest.mark.timeout(600)]


HOW_MANY = pytest.mark.parametrize("cycles", [pytest.param(50), pytest.param(1_000, marks=TORTURE)])


def ran(room: Path, *arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What there was after the warm-up, and what there is at the end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.durability.cycles", *arguments],
        cwd=room,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERTULIA_HOME": str(room / "home")},
        capture_output=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    before, after = json.loads(done.stdout)
    return before, after


@HOW_MANY
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_so_many_sessions_cost_no_descriptor_no_thread_no_process_and_no_object(room: Path, cycles: int) -> None:
    """Target 8: after a warm-up; with tools, children, subscriptions, resumed ones and some closed while they run."""
    before, after = ran(room, "60", str(cycles))
    for what in ("fds", "threads", "others", "children"):
        assert after[what] == before[what]
    assert after["children"] == []
    assert after["traced"] - before["traced"] <= MIB / 4
    assert after["objects"] - before["objects"] <= 100
    sys.stdout.write(f"{cycles} cycles: {after['traced'] - before['traced']:,} bytes more\n")


@HOW_MANY
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_so_many_sessions_take_no_more_than_a_mebibyte_from_the_system(room: Path, cycles: int) -> None:
    """Target 8: what the process occupies, once the tables that the interpreter makes as it goes have their size."""
    before, after = ran(room, "300", str(cycles), "untraced")
    grown = after["kib"] - before["kib"]
    assert grown <= MIB / 1024
    sys.stdout.write(f"{cycles} cycles: {grown:,} KiB more\n")
