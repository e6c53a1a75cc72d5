"""Disks that are really full or really read-only, in a mount namespace of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANG_S

ROOT = Path(__file__).parents[3]
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--user", "--mount"]


def cannot_mount() -> str | None:
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    command = [*UNSHARE, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    return None if ran.returncode == 0 else f"nothing can be mounted here: {ran.stderr.strip()[:200]}"


@pytest.mark.skipif(bool(reason := cannot_mount()), reason=reason or "")
@pytest.mark.parametrize("act", ["full", "full_at_start", "read_only"])
def test_a_disk_that_is_full_or_cannot_be_written_is_a_clear_error(tmp_path: Path, act: str) -> None:
    """F5: 64 KiB; F7: remounted read-only, because modes do not bind root."""
    command = [*UNSHARE, sys.executable, "-m", "tests.rollout.places", act, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ran.returncode == 0, ran.stderr
