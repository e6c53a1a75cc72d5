"""`python -m bench.hot_paths`: count, compare with the figures, fail by the name of the path that got dearer."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.hot_paths.figures import FILE, VERSION, Verdict, accept, judge, load
from bench.hot_paths.instructions import InstructionCounter
from bench.hot_paths.paths import HOT_PATHS, HotPath

ROOT = Path(__file__).parents[2]
STEADY = "TERTULIA_HOT_PATHS_STEADY"
WARM_UP = 3
ROUNDS = 4
LONG_S = 60
ACCEPT = "make hot-paths ACCEPT=--accept"


def main() -> int:
    """Count in a process that is the same everywhere; the exit code is 1 where the guard refuses something."""
    parser = argparse.ArgumentParser(prog="python -m bench.hot_paths", description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="the name of a path; without one all are counted")
    parser.add_argument("--accept", action="store_true", help="make what is counted the figures of this Python")
    parser.add_argument("--figures", type=Path, default=FILE, help="the file with the figures")
    options = parser.parse_args()
    if STEADY not in os.environ:
        return _again_steadily(options.figures.absolute())
    chosen = [path for path in HOT_PATHS if path.name in options.paths or not options.paths]
    if len(chosen) < len(options.paths):
        parser.error(f"PATH is one of: {'; '.join(path.name for path in HOT_PATHS)}")
    counted = {path.name: _count(path) for path in chosen}
    figures = load(options.figures).get(VERSION, {})
    if options.paths:
        figures = {name: figure for name, figure in figures.items() if name in counted}
    verdicts = judge(counted, figures)
    status = _say(verdicts)
    if not options.accept:
        return status
    accept(verdicts, options.figures)
    print(f"Accepted. The figures of Python {VERSION} are in {options.figures}")
    return 0


def _again_steadily(figures: Path) -> int:
    """The same in a process without the user's variables, settings and projects, and with one seed for all hashes."""
    with tempfile.TemporaryDirectory() as folder:
        home, workspace = Path(folder, "home"), Path(folder, "workspace")
        home.mkdir()
        workspace.mkdir()
        # The user's own home, because what is guarded in it is guarded in every home that a user has.
        owner = next((user.pw_dir for user in pwd.getpwall() if user.pw_uid == os.getuid()), folder)
        variables = {"PATH": os.defpath, "HOME": owner, "TERTULIA_HOME": str(home), "PYTHONHASHSEED": "0"}
        variables |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", STEADY: "1"}
        argv = [sys.executable, "-m", "bench.hot_paths", *sys.argv[1:], "--figures", str(figures)]
        return subprocess.run(argv, env=variables, cwd=workspace, check=False).returncode


def _count(path: HotPath) -> int:
    """Instructions of one step. The best round: what a thread or a socket adds by chance is in the others."""
    counter = InstructionCounter()
    gc.collect()
    gc.disable()
    # A thread goes on until it waits: how fast the machine is does not decide which of two is first.
    sys.setswitchinterval(LONG_S)
    counter.start()
    try:
        return min(asyncio.run(_rounds(path, counter))) // path.steps
    finally:
        counter.stop()
        gc.enable()


async def _rounds(path: HotPath, counter: InstructionCounter) -> list[int]:
    async with path.opened() as step:
        for _ in range(WARM_UP):
            await step()
        counts: list[int] = []
        for _ in range(ROUNDS):
            begun = counter.total
            for _ in range(path.steps):
                await step()
            counts.append(counter.total - begun)
        return counts


def _say(verdicts: Sequence[Verdict]) -> int:
    for verdict in verdicts:
        print(f"{verdict.kind:8}{verdict}")
    kinds = {verdict.kind for verdict in verdicts}
    if "cheaper" in kinds:
        print(f"A path got cheaper. Lower its figure, so that it stays so: {ACCEPT}")
    if "new" in kinds:
        print(f"A path has no figure for Python {VERSION} and was compared with nothing. Give it one: {ACCEPT}")
    if any(verdict.fails for verdict in verdicts):
        print(f"Where that is meant, accept the new figures: {ACCEPT}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
