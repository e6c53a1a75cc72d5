"""What the tests of apply_patch share: patches, trees, and the disk part run by its path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertulia.tools.confined_program import confined_program
from tertulia.tools.patch import disk_program
from tertulia.tools.patch.plan import make_plan
from tertulia.tools.patch.text import parse_patch
from tests.deadlines import HANG_S

DISK = [*confined_program(disk_program.__file__)]
needed = [program for program in ("diff", "patch") if shutil.which(program) is None]


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def applied(files: dict[str, str], *lines: str) -> dict[str, str]:
    """The files after the patch, all in memory."""
    contents = {path: text.encode("utf-8", "surrogateescape") for path, text in files.items()}
    plan = make_plan(parse_patch(patch(*lines)), contents.get)
    after: dict[str, bytes | None] = contents | {change.path: change.new for change in plan.changes}
    return {path: new.decode("utf-8", "surrogateescape") for path, new in after.items() if new is not None}


def run_disk(place: Path, request: Any, prefix: Sequence[str] = ()) -> dict[str, Any]:
    """The disk part as it runs in the sandbox: isolated, with its request on stdin."""
    done = subprocess.run(
        [*prefix, *DISK],
        cwd=place,
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"crashed": done.stderr.decode()}
    return answer


def snapshot(place: Path) -> dict[str, tuple[int, object]]:
    """Every name below a directory with its mode, and its bytes, or where it points."""
    tree: dict[str, tuple[int, object]] = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content: object = os.readlink(path)
        else:
            content = path.read_bytes() if path.is_file() else None
        tree[str(path.relative_to(place))] = (status.st_mode, content)
    return tree
