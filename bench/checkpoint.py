"""What a checkpoint of 10,000 files costs: the first one, one of files that did not change, one of ten that did.

The first is made in the background when a session opens. Beside it stands what `git add` and `git write-tree` take for
the same files in a repository of the user's, in the same run.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tertulia.session.checkpoints.shadow import ShadowRepository
from tertulia.session.checkpoints.windows import Window
from tertulia.session.checkpoints.workspace import WorkspaceCheckpoints, new_checkpoint_id

FILES = 10_000
ROUNDS = 15
Rows = list[tuple[str, float, str] | tuple[str, float, str, str]]


def run() -> Rows:
    """Measure; each result is (name, value, unit), with a target where there is one."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        return asyncio.run(_measure(Path(os.path.realpath(folder))))


async def _measure(folder: Path) -> Rows:
    workspace = folder / "workspace"
    _fill(workspace)
    shadow = ShadowRepository(folder / "checkpoints", str(workspace), os.environ)
    place = WorkspaceCheckpoints(shadow, "bench", folder / "journals", os.environ, time.time)
    began = time.perf_counter()
    await place.prepare(None)
    first = (time.perf_counter() - began) * 1000
    used = _cpu_ms()
    same = [await _checkpoint(place) for _ in range(ROUNDS)]
    used = (_cpu_ms() - used) / ROUNDS
    changed: list[float] = []
    for turn in range(ROUNDS):
        for number in range(10):
            _path(workspace, number * 997).write_text(f"turn {turn}\n")
        changed.append(await _checkpoint(place))
    place.close()
    plain = _plain_git(workspace)
    return [
        (f"git add and write-tree of {FILES:,} files", plain, "ms"),
        (f"first checkpoint of {FILES:,} files, in the background", first, "ms"),
        (f"checkpoint of {FILES:,} files that did not change", statistics.median(same), "ms", "<= 100"),
        ("the fastest of these", min(same), "ms"),
        ("CPU of one of these, that of git included", used, "ms"),
        (f"checkpoint of {FILES:,} files of which 10 changed", statistics.median(changed), "ms"),
    ]


def _cpu_ms() -> float:
    times = os.times()
    return (times.user + times.system + times.children_user + times.children_system) * 1000


async def _checkpoint(place: WorkspaceCheckpoints) -> float:
    window = Window(id=new_checkpoint_id(), cause="task", session_id="bench", conversation_id="c", began=0.0, before="")
    began = time.perf_counter()
    await place.begin(window)
    return (time.perf_counter() - began) * 1000


def _path(workspace: Path, number: int) -> Path:
    return workspace / f"package_{number // 100}" / f"module_{number}.py"


def _fill(workspace: Path) -> None:
    text = "".join(f"value_{number} = compute({number}, other={number * 7})\n" for number in range(40))
    for number in range(FILES):
        path = _path(workspace, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n{text}")


def _plain_git(workspace: Path) -> float:
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(workspace)], env=quiet, check=True)
    began = time.perf_counter()
    for words in (["add", "-A"], ["write-tree"]):
        subprocess.run(["git", "-C", str(workspace), *words], env=quiet, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000
