"""A process that restores files and is killed with -9: before a step of ours, or at an act on a file.

python -m tests.session.checkpoints.dying_restore FOLDER STEP|NUMBER
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.session.checkpoints.scene import Scene
from tests.session.checkpoints.test_workspace import changes_of_every_kind, many_kinds

STEPS = ("window", "read", "journal", "name the old files", "files", "ref", "finish", "clear away", "forget", "record")
DONE = STEPS[6:]
"""Before these the ref is set that says that it is done."""
_ACTS = ("rename", "link", "mkdir", "unlink", "symlink", "fchmod", "rmdir")


def die() -> None:
    """As a user or the machine does it."""
    os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: Path, last: str) -> None:
    """Set the scene, note what was before, and restore until the end."""
    scene = Scene(folder)
    many_kinds(scene)
    window = await scene.begin()
    (folder / "old").write_text(repr(scene.files()))
    changes_of_every_kind(scene)
    (folder / "new").write_text(repr(scene.files()))
    await scene.end(window)
    count = 0

    def dying(act: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == int(last):
                die()
            return act(*arguments, **options)

        return counted

    def step(name: str) -> None:
        if name == last:
            die()
        if last.isdigit() and name == "files":
            for act in _ACTS:
                setattr(os, act, dying(getattr(os, act)))

    scene.place.step = step
    await scene.undo()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
