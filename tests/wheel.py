"""What a user installs: the wheel, built from this tree without a network, and unpacked."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.deadlines import HANG_S

ROOT = Path(__file__).parents[1]


def unpacked(place: Path) -> Path:
    """A directory to put in front of the import path."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=HANG_S)
    (wheel,) = (place / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(place / "installed")
    return place / "installed"
