"""The process that becomes a command, before there is one."""

from __future__ import annotations

import os
from pathlib import Path

from tertulia.sandbox.launcher import next_command


def test_a_rehearsal_leaves_nothing_behind_and_changes_nothing() -> None:
    """It is done by a process that is confined already, or not yet: outside of any command in both cases."""

    def state() -> tuple[list[str], str, str, str]:
        limits, status = Path("/proc/self/limits").read_text(), Path("/proc/self/status").read_text()
        seccomp = next(line for line in status.splitlines() if line.startswith("Seccomp:"))
        return sorted(os.listdir("/proc/self/fd")), limits, seccomp, os.getcwd()

    before = state()
    next_command._rehearse_request()
    assert state() == before
