"""The Node of the environment, which runs what the page is made of."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conformance.suite import NODE
from tests.deadlines import HANG_S

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "src" / "tertulia" / "web"


def run_node(*arguments: str | Path, stdin: Any = None) -> str:
    """What a program prints. `stdin`: sent to it as JSON."""
    done = subprocess.run(
        [NODE, *arguments],
        input=json.dumps(stdin),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
