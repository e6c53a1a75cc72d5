"""What confining a command costs: time on top of a plain spawn in the same run, and memory for endless output.

Plain spawns and confined ones take turns, so that whatever else the machine does hits both alike.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.runner import Command, Confinement
from tertulia.sandbox.sandbox import Sandbox

ROUNDS = 60
LARGE = 1536 << 20
OUTPUT = 1 << 30
KEPT = 65_536
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}

Rows = list[tuple[str, float, str] | tuple[str, float, str, str]]


def run() -> Rows:
    """Measure; each result is (name, value, unit, target). A tier that is not here is left out."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="bench-"))
    try:
        return [*_tier("bubblewrap", folder, "<= 12"), *_tier("landlock", folder, "<= 2"), *_large(folder)]
    finally:
        shutil.rmtree(folder)


def _tier(tier: Literal["bubblewrap", "landlock"], folder: str, target: str) -> Rows:
    try:
        plain, added = asyncio.run(_compare(tier, folder))
        growth, speed = asyncio.run(_endless(tier, folder))
    except SandboxUnavailableError as error:
        print(f"{tier} is not measured: {error.message}", file=sys.stderr)
        return []
    return [
        ("a plain spawn", plain, "ms"),
        (f"{tier}, on top of it", added, "ms", target),
        (f"{tier}, against it", (plain + added) / plain, "times"),
        (f"{tier}, 1 GiB of output: memory", growth, "MiB", "<= 2"),
        (f"{tier}, 1 GiB of output: speed", speed, "MB/s"),
    ]


def _command(folder: str, *argv: str, **fields: int) -> Command:
    confinement = Confinement(mode="workspace_write", writable_roots=(folder,))
    return Command(argv=argv, cwd=folder, confinement=confinement, environment=ENVIRONMENT, **fields)


async def _compare(tier: Literal["bubblewrap", "landlock"], folder: str) -> tuple[float, float]:
    """(median of a plain spawn, median of what a confined one takes longer than the plain one before it), in ms."""
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    await sandbox.check()
    plain: list[float] = []
    added: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run(["/bin/true"], env=ENVIRONMENT, check=True)
        between = time.perf_counter()
        finished = await sandbox.run(_command(folder, "/bin/true"))
        plain.append(between - begin)
        added.append(time.perf_counter() - between - plain[-1])
        assert finished.exit_code == 0
    await sandbox.close()
    return statistics.median(plain) * 1e3, statistics.median(added) * 1e3


async def _endless(tier: Literal["bubblewrap", "landlock"], folder: str) -> tuple[float, float]:
    """(growth of this process at its largest in MiB, MB a second) for a gigabyte of output."""
    sandbox = Sandbox(tier=tier, clock=SystemClock())
    await sandbox.run(_command(folder, "head", "-c", str(1 << 20), "/dev/zero", kept_output_bytes=KEPT))
    before = _peak()
    finished = await sandbox.run(_command(folder, "head", "-c", str(OUTPUT), "/dev/zero", kept_output_bytes=KEPT))
    growth = _peak() - before
    await sandbox.close()
    assert finished.output.total == OUTPUT
    return growth, OUTPUT / 1e6 / finished.duration_s


def _peak() -> float:
    """The largest that this process has been, since it was last asked, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    # 5 has the kernel forget the peak. Where it may not be written, the peak is that of all time.
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024


def _large(folder: str) -> Rows:
    """The same from a process of 1.5 GiB: fork copies page tables, unless nobody forks."""
    ballast = bytearray(b"x" * (1 << 20)) * (LARGE >> 20)
    try:
        _, added = asyncio.run(_compare("bubblewrap", folder))
    except SandboxUnavailableError:
        return []
    finally:
        del ballast
    return [("bubblewrap, from a process of 1.5 GiB", added, "ms", "<= 20")]
