"""`python -m tests.fuzz NAME|all [-runs=N] [-max_total_time=S] …`: libFuzzer, steered by the branches of our own code.

Every option after the name is libFuzzer's. An input that fails is kept in `.fuzz/`: give its path as an option to try
it again, and make it a seed once it is mended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import ROOT, WATCHED, why_not

_FOUND = ROOT / ".fuzz"


def main(name: str, *options: str) -> int:
    """The exit code of libFuzzer, which ends its process itself: whatever it made is removed from outside."""
    with tempfile.TemporaryDirectory() as room:
        command = [sys.executable, "-m", "tests.fuzz.worker", name, room, *options]
        code = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "TMPDIR": room}).returncode
        for found in Path(room).glob(f"{name}-*"):
            _FOUND.mkdir(exist_ok=True)
            shutil.copy(found, _FOUND)
            sys.stderr.write(f"kept: {_FOUND / found.name}\n")
    return code


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    if len(sys.argv) < 2 or sys.argv[1] not in ("all", "planted", *WATCHED):
        sys.exit(f"{__doc__}\nNames: {', '.join(WATCHED)}")
    names = WATCHED if sys.argv[1] == "all" else sys.argv[1:2]
    codes = {name: main(name, *sys.argv[2:]) for name in names}
    failed = [name for name, code in codes.items() if code]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
