"""What is mounted on the machine while a command begins or runs: it is not writable to the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import HANG_S

ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio, subprocess, sys
from msgspec.structs import replace
from tests.sandbox.confined import waiting_sandbox
from tertulia.events.clock import SystemClock
from tertulia.sandbox.mounts.helper_client import NamespaceMounts
from tertulia.sandbox.runner import Command, Confinement
from tertulia.sandbox.sandbox import Sandbox

def mount(place):
    subprocess.run(["mount", "-t", "tmpfs", "late", place], check=True)

async def main(root, place, when):
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    sandbox, begun = Sandbox(tier="bubblewrap", clock=SystemClock()), asyncio.Event()
    await sandbox.check()
    enter = NamespaceMounts.enter
    def mount_first(mounts, *process):
        mount(place)
        enter(mounts, *process)
    if when == "begins":
        NamespaceMounts.enter = mount_first
    command = Command(
        argv=("sh", "-c", f"echo begun; read line; touch {place}/late && echo written; echo mine > own; cat own"),
        cwd=root,
        confinement=Confinement(mode="workspace_write", writable_roots=(root,)),
        environment={"PATH": "/usr/bin:/bin"},
        keep_stdin=True,
    )
    if when == "waits":
        await sandbox.run(replace(command, argv=("true",)))
        waiting = await waiting_sandbox(sandbox)
        assert not waiting.is_stale()
        mount(place)
        assert waiting.is_stale()
    process = await sandbox.start(command, lambda data: begun.set())
    await begun.wait()
    if when == "runs":
        mount(place)
    await process.write(b"go\\n")
    print((await process.wait()).output.text())
    await sandbox.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["begins", "runs", "waits"])
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes mounts")
def test_a1_a_file_system_that_is_mounted_meanwhile_is_not_writable(tmp_path: Path, when: str) -> None:
    """A1: on most machines mounts are passed on to all namespaces, as they are: a new one would come writable."""
    place = next(path for path in ("/srv", "/media", "/mnt", "/opt") if os.path.isdir(path))
    # In a namespace of mounts of its own: the machine that runs this test is left alone.
    line = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", PROGRAM, str(tmp_path), place, when]
    run = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert run.returncode == 0, run.stderr
    assert "Read-only file system" in run.stdout
    assert "written" not in run.stdout
    assert run.stdout.rstrip().endswith("mine")
    assert os.listdir(tmp_path) == ["own"]
