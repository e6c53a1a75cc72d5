"""Having many children live and die, two at a time, and judging what is left of each."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.durability.children import Children
from tests.rollout.faults import STORAGE

Point = tuple[str, int]


def on_all(families: SimpleQueue[Children], work: Callable[[Children, int], str | None], times: int) -> list[str]:
    """Do it so often, two at a time; what went wrong."""

    def once(number: int) -> str | None:
        children = families.get()
        try:
            return work(children, number)
        finally:
            families.put(children)

    with ThreadPoolExecutor(2) as pool:
        return [wrong for wrong in pool.map(once, range(times)) if wrong is not None]


def judged(children: Children, folder: Path, case: object) -> str | None:
    wrong = children.check(folder)
    if wrong is None:
        shutil.rmtree(folder)
        return None
    return f"{case}: {wrong}"


def points_of(families: SimpleQueue[Children], folder: Path, part: str, act: str = "live") -> list[Point]:
    """Every call of a reference life that has to do with storage: its name, and its number in its thread."""
    log = folder / "log"
    children = families.get()
    try:
        tracing = ("-e", f"trace={','.join(STORAGE)}", "-o", str(log))
        assert children.run(act, folder / "count", part, "full", *tracing) == 0
    finally:
        families.put(children)
    calls = re.findall(r"^(\d+)\s+(\w+)\(", log.read_text(), re.MULTILINE)
    # The first is the loop's own; what a command does in a process of its own is its business.
    threads = {calls[0][0], *(thread for thread, name in calls if name == "pwrite64")}
    most: Counter[str] = Counter()
    for (thread, name), times in Counter(calls).items():
        if thread in threads:
            most[name] = max(most[name], times)
    assert {"pwrite64", "fdatasync", "openat"} <= most.keys()
    return [(name, k) for name, times in most.items() for k in range(1, times + 1)]
