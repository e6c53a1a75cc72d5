"""How a parallel run shares out its tests: a file at a time, those that take longest first.

What a file prepares for all of its tests is then prepared once, and not in every process. Files that name the same
`xdist_group` in their `pytestmark` go to one process, one after the other.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent.parent
_GROUP = re.compile(r"^pytestmark = (?:.|\n[ \]])*?xdist_group\(\"([\w-]+)\"\)", re.MULTILINE)
_LONG, _SHORT = 5.0, 0.1
"""Seconds that a test takes which says that it is slow or sets its own deadline, and any other: in which order files
begin depends on it, and nothing else."""


class FileScheduling(LoadScopeScheduling):
    """Hands out files in the order of the collection. (`--dist loadgroup` has no effect with pytest 9.2: xdist 3.8
    writes the group into a field that nothing reads any more.)
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid.partition("::")[0])


@cache
def unit_of(file: str) -> str:
    """What goes to one process together with this file: its group, or only itself."""
    path = ROOT / file
    group = _GROUP.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return group[1] if group else file


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests so that files come in the order of what their tests may take together; within a file nothing moves."""
    takes: Counter[Path] = Counter()
    for item in items:
        long = item.get_closest_marker("slow") or item.get_closest_marker("timeout")
        takes[item.path] += _LONG if long else _SHORT  # type: ignore[assignment]
    items.sort(key=lambda item: takes[item.path], reverse=True)
