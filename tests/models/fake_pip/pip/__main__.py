"""A pip that does as the environment says: PIP_SAYS is printed, PIP_LEAVES is left half-done, PIP_BRINGS is copied."""

import os
import shutil
import signal
import sys
from pathlib import Path

destination = Path(sys.argv[sys.argv.index("--dest") + 1])
Path(os.environ["PIP_LOG"]).write_text("\n".join(sys.argv[1:]))
if leaves := os.environ.get("PIP_LEAVES"):
    Path(os.environ["TMPDIR"], leaves).write_bytes(b"x" * 1000)
if "PIP_HANGS" in os.environ:
    signal.pause()
if brings := os.environ.get("PIP_BRINGS"):
    shutil.copy(brings, destination)
sys.stderr.write(os.environ.get("PIP_SAYS", "") + "\n")
sys.exit(int(os.environ.get("PIP_CODE", "0")))
