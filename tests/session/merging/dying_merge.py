"""A process that merges and is killed with -9: before a step of ours, or at an act of the program that writes files.

python -m tests.session.merging.dying_merge FOLDER MODE STEP|NUMBER
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tertulia.session.merging.journal import TreeJournal
from tertulia.session.merging.merge import MergeSides, WorktreeMerge
from tertulia.tools import command_environment
from tertulia.tools.patch import disk_program
from tests.session.merging.sides import LINES, Stage, ready, stage
from tests.session.worktrees.repository import variables
from tests.tools.calling import call

APPLY = ("keep the old files", "journal", "name the old files", "files", "ref", "finish", "clear away", "forget")
COMMIT = (*APPLY[:3], "hold the index", *APPLY[3:6], "name what was merged", *APPLY[6:])
DONE = ("finish", "name what was merged", "clear away", "forget")
"""Before these the last ref is set."""

_DISK = """
import importlib.util, json, os, signal, sys
program, main, turn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
spec = importlib.util.spec_from_file_location("disk_program", program)
module = importlib.util.module_from_spec(spec)
sys.modules["disk_program"] = module
spec.loader.exec_module(module)
count = 0

def dying(real):
    def act(*arguments, **names):
        global count
        count += 1
        if count == turn:
            os.kill(main, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **names)
    return act

for act in ("rename", "link", "mkdir", "unlink", "symlink", "fchmod"):
    setattr(os, act, dying(getattr(os, act)))
print(json.dumps(module.main(json.load(sys.stdin))))
"""


def change_everything(made: Stage) -> None:
    """One of each kind: changed, new, gone with its directory, renamed, executable, a link."""
    made.write("text", LINES.replace("line 18\n", "theirs\n"))
    made.write("deep/er/new", "new\n")
    (made.child / "gone" / "file").unlink()
    (made.child / "old").rename(made.child / "renamed")
    (made.child / "run").chmod(0o755)
    (made.child / "picture").unlink()
    (made.child / "picture").symlink_to("text")


def state(made: Stage) -> dict[str, Any]:
    """All that a kill must leave as it was: files without their times, index, HEAD, refs but that of the child."""
    found: dict[str, Any] = made.state()
    index = found["index"]
    files = {name: (mode, content) for name, (mode, _, content) in found["files"].items()}
    return {**found, "files": files, "index": None if index is None else index[1]}


async def main(folder: Path, mode: Any, last: str) -> None:
    """Set the stage, note its state, and merge until the end."""
    async with stage(folder) as made:
        made.ours.write("gone/file", "gone\n").chmod(0o600)
        made.ours.write("run", "#!/bin/sh\n")
        made.ours.commit("second")
        made.ours.git("worktree", "remove", "--force", str(made.child))
        made.ours.git("branch", "-q", "-D", "tertulia/ab12")
        await made.begin()
        change_everything(made)
        made.ours.write("mine", "not committed\n")
        made.ours.git("add", "mine")
        (folder / "before").write_text(repr(state(made)))
        assert made.worktree is not None
        made.bench.with_rights("never", **({"sandbox": "danger_full_access"} if last.isdigit() else {}))
        if last.isdigit():
            program = folder / "disk.py"
            program.write_text(_DISK)
            words = (sys.executable, str(program), disk_program.__file__, str(os.getpid()), last)
            command_environment._DISK_COMMAND = words

        def step(name: str) -> None:
            if name == last:
                os.kill(os.getpid(), signal.SIGKILL)

        journal = TreeJournal.of(made.merges, str(made.ours.top))
        sides = MergeSides(made.worktree, await made.tree(), "a title", variables(made.home), journal)
        context = made.bench.context(call("conv_merge"))
        async with journal.held():
            await WorktreeMerge(sides, mode, made.bench.place, context, ready, step).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
