"""What the tools for files cost: a search of 10,000 files with ripgrep and without, and an edit.

Everything is measured in turns, so that a busy machine slows down what is compared alike. `edit` reads the file and
writes it, each in a confined start of Python; a search with ripgrep is one confined start more than ripgrep alone, and
what the kernel's filter adds to each of its 60,000 system calls: 3 ms of processor time in 53, with any filter at all.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tertulia.events.clock import SystemClock
from tertulia.policy.approval_policy import NEVER
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.rights import TOP
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.sandbox.masks.guarded_paths import GuardedPaths
from tertulia.sandbox.runner import Command
from tertulia.sandbox.sandbox import Sandbox
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.files.members import make_file_tool
from tertulia.tools.patch.engine import MAX_ANSWER_BYTES, PatchEngine
from tertulia.tools.tool import CallContext, Result

FILES = 10_000
ROUNDS = 15
PAUSE_S = 0.05
"""Before each: a model thinks between two calls, and a sandbox is prepared meanwhile, for all alike."""
Rows = list[tuple[str, float, str] | tuple[str, float, str, str]]
Act = Callable[[], Awaitable[object]]


def run() -> Rows:
    """Measure; each result is (name, value, unit), with a target where there is one."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        return asyncio.run(_measure(os.path.realpath(folder)))


async def _measure(folder: str) -> Rows:
    _fill(Path(folder))
    ripgrep = shutil.which("rg")
    sandbox = Sandbox(clock=SystemClock())
    try:
        bench = _Bench(folder, sandbox)
        acts: dict[str, Act] = {
            "python": bench.two_starts,
            "true": lambda: bench.confined("/bin/true"),
            "edit": bench.edit,
            "ours": lambda: bench.grep("/nonexistent"),
        }
        if ripgrep is not None:
            acts["bare"] = lambda: _bare(ripgrep, folder)
            acts["ripgrep"] = lambda: bench.grep(os.path.dirname(ripgrep))
        taken = await _rounds(acts)
    finally:
        await sandbox.close()
    return _rows(taken)


def _rows(taken: Mapping[str, float]) -> Rows:
    rows: Rows = [
        ("two confined starts of Python, one after the other", taken["python"], "ms"),
        ("edit of a file", taken["edit"], "ms"),
        ("edit against two confined starts of Python", taken["edit"] / taken["python"], "x", "<= 1.2"),
        (f"grep of {FILES:,} files, ours", taken["ours"], "ms"),
    ]
    if "bare" in taken:
        allowed = taken["bare"] + taken["true"]
        rows += [
            (f"grep of {FILES:,} files, ripgrep alone", taken["bare"], "ms"),
            (f"grep of {FILES:,} files, with ripgrep", taken["ripgrep"], "ms"),
            ("with ripgrep against ripgrep alone and one confined start", taken["ripgrep"] / allowed, "x", "<= 1.0"),
            ("ours against ripgrep alone", taken["ours"] / taken["bare"], "x", "<= 10"),
        ]
    return rows


def _fill(folder: Path) -> None:
    text = "".join(f"value_{number} = compute({number}, other={number * 7})\n" for number in range(40))
    for number in range(FILES):
        if number % 100 == 0:
            (folder / f"package_{number // 100}").mkdir()
        needle = "needle = True\n" if number % 500 == 0 else ""
        (folder / f"package_{number // 100}" / f"module_{number}.py").write_text(text + needle)
    (folder / ".gitignore").write_text("*.pyc\nbuild/\n__pycache__/\n")


class _Bench:
    def __init__(self, folder: str, sandbox: Sandbox) -> None:
        self._folder = folder
        self._place = CommandEnvironment(
            runner=sandbox,
            approvals=ApprovalQueue(SystemClock()),
            root=folder,
            guarded=GuardedPaths(()),
            environment={"PATH": "/usr/bin:/bin"},
            environment_policy="bench",
            timeout_s=60,
        )
        place = self._place
        self._engine = PatchEngine(
            lambda argv, stdin, call: place.confined(argv, stdin, MAX_ANSWER_BYTES, call),
            place.approve_patch,
            place.check_changeable,
        )
        self._edit = make_file_tool("edit", place, self._engine, None)
        self._odd = True

    async def confined(self, *argv: str) -> None:
        call = self._call()
        command = Command(
            argv=argv,
            cwd=self._folder,
            confinement=self._place.confinement(call.rights),
            environment=self._place.environment,
        )
        finished = await self._place.runner.run(command)
        assert finished.exit_code == 0, finished

    async def two_starts(self) -> None:
        """As an edit has them: the second begins at once, before another sandbox could be prepared."""
        for _ in range(2):
            await self.confined(sys.executable, "-c", "pass")

    async def edit(self) -> None:
        old, new = ("value_3 ", "other_3 ") if self._odd else ("other_3 ", "value_3 ")
        self._odd = not self._odd
        edits = [{"old": f"{old}= ", "new": f"{new}= "}]
        await self._done(self._edit, {"path": "package_0/module_0.py", "edits": edits})

    async def grep(self, path: str) -> None:
        place = replace(self._place, environment={"PATH": path})
        tool = make_file_tool("grep", place, self._engine, None)
        await self._done(tool, {"pattern": r"needle\s*=\s*True"})

    async def _done(self, tool: Any, arguments: dict[str, Any]) -> None:
        result = await tool.run(arguments, self._call())
        assert isinstance(result, Result)
        assert result.success, result.text

    def _call(self) -> CallContext:
        return CallContext(
            conversation_id=ConversationId("bench"),
            task_id=TaskId("bench"),
            call_id=CallId("bench"),
            cwd=self._folder,
            rights=replace(TOP, approval_policy=NEVER, sandbox="workspace_write", network=False),
            publish=lambda _: None,
            clock=SystemClock(),
        )


async def _bare(ripgrep: str, folder: str) -> None:
    words = ("--hidden", "--line-number", "--regexp=needle\\s*=\\s*True", ".")
    process = await asyncio.create_subprocess_exec(
        ripgrep, *words, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0


async def _rounds(acts: Mapping[str, Act]) -> dict[str, float]:
    """The shortest time of each, in milliseconds: on a busy machine that comes nearest to the true one."""
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(ROUNDS + 1):
        for name, act in acts.items():
            await asyncio.sleep(PAUSE_S)
            began = time.perf_counter()
            await act()
            if number:
                taken[name].append((time.perf_counter() - began) * 1000)
    return {name: min(times) for name, times in taken.items()}


if __name__ == "__main__":
    for row in run():
        sys.stdout.write(f"{row[0]}: {row[1]:.2f} {row[2]}\n")
