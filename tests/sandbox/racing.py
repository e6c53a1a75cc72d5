"""A hostile command in the background, and many that begin meanwhile in the same workspace.

`python -m tests.sandbox.racing ATTEMPTS` prints one JSON object. It is run as whoever is to be tried: root, or an
ordinary user. The hostile command puts a link in the place of what a repository lies in, as fast as it can: to a
directory outside, also by the name under which that is seen while bubblewrap makes its mounts.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tertulia.errors import SandboxError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.runner import Command, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S
CONFIG = "[core]\n"

HOSTILE = """
import itertools, os, sys
above, name = os.path.split(sys.argv[1])
os.chdir(above or ".")
print("ready", flush=True)
for target in itertools.cycle(sys.argv[2:]):
    os.symlink(target, "link")
    os.rename(name, "away")
    os.rename("link", name)
    os.unlink(name)
    os.rename("away", name)
"""
VICTIM = """
import os
for _ in range(40):
    for place in ("vendor/lib", "away/lib", "vendor/away"):
        for path in (f"{place}/.git/config", f"{place}/.git/hooks/evil"):
            try:
                with open(path, "a") as file:
                    file.write("evil")
            except OSError:
                pass
"""


class Race:
    """A workspace with a repository that is not at its top, and a directory outside that must stay empty."""

    def __init__(self) -> None:
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="race-")))
        self.workspace, self.outside = self.folder / "workspace", self.folder / "outside"
        (self.workspace / "vendor" / "lib" / ".git" / "hooks").mkdir(parents=True)
        (self.workspace / "vendor" / "lib" / ".git" / "config").write_text(CONFIG)
        self.outside.mkdir()

    def command(self, *argv: str) -> Command:
        """In the workspace."""
        confinement = Confinement(mode="workspace_write", writable_roots=(str(self.workspace),))
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        return Command(argv=argv, cwd=str(self.workspace), confinement=confinement, environment=environment)

    def python(self, code: str, *arguments: str) -> Command:
        """A Python program."""
        return self.command(sys.executable, "-I", "-S", "-c", code, *arguments)

    def harm(self) -> list[str]:
        """What was changed that must not be."""
        found = [str(path) for path in self.outside.rglob("*")]
        for store in self.workspace.rglob(".git"):
            if store.is_symlink() or not (store / "config").is_file():
                continue
            if (store / "config").read_text() != CONFIG:
                found.append(str(store / "config"))
            found += map(str, (store / "hooks").iterdir() if (store / "hooks").is_dir() else [store / "hooks"])
        return found


async def race(moved: str, attempts: int) -> dict[str, Any]:
    """Begin so many commands, in this session and in others, and see what came of it."""
    scene, clock = Race(), SystemClock()
    first = Sandbox(clock=clock)
    targets = [f"{prefix}{scene.outside}/{name}" for prefix in ("/oldroot", "/newroot", "") for name in ("x", ".")]
    ran = refused = 0
    try:
        # A session that knows the workspace from before; the others see it for the first time.
        await first.run(scene.command("true"), timeout_s=DEADLINE_S)
        begun = asyncio.Event()
        hostile = await first.start(scene.python(HOSTILE, moved, *targets), lambda _: begun.set())
        assert await asyncio.wait_for(begun.wait(), DEADLINE_S)
        for number in range(attempts):
            other = first if number % 3 else Sandbox(clock=clock)
            try:
                await other.run(scene.python(VICTIM), timeout_s=DEADLINE_S)
                ran += 1
            except SandboxError:
                refused += 1
            finally:
                if other is not first:
                    await other.close()
        alive = hostile.finished is None
        await hostile.kill()
        return {"uid": os.getuid(), "hostile": alive, "ran": ran, "refused": refused, "harm": scene.harm()}
    finally:
        await first.close()
        shutil.rmtree(scene.folder, ignore_errors=True)


if __name__ == "__main__":
    results = [asyncio.run(race(moved, int(sys.argv[1]))) for moved in ("vendor", "vendor/lib")]
    sys.stdout.write(json.dumps(results))
