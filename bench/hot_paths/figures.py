"""The figures that are checked in, a set for each minor version of Python: compilers differ."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

FILE = Path(__file__).with_name("figures.json")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
TOLERANCE = 0.03

Figures = dict[str, int]
"""Instructions of one step, by the name of the path."""


class Verdict(msgspec.Struct, frozen=True):
    """What became of one path."""

    name: str
    kind: Literal["same", "dearer", "cheaper", "new", "gone"]
    counted: int = 0
    figure: int = 0

    @property
    def fails(self) -> bool:
        """Whether the guard refuses it. A cheaper path, or one without a figure yet, only wants its figure set."""
        return self.kind in {"dearer", "gone"}

    def __str__(self) -> str:
        match self.kind:
            case "new":
                return f"{self.name}: {self.counted:,} instructions, and no figure for Python {VERSION}"
            case "gone":
                return f"{self.name}: a figure ({self.figure:,}) of a path that is not counted any more"
            case _:
                change = 100 * (self.counted / self.figure - 1)
                return f"{self.name}: {self.counted:,} instructions, {change:+.1f} % of {self.figure:,}"


def load(file: Path = FILE) -> dict[str, Figures]:
    """All figures, by version of Python."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Figures]) if file.exists() else {}


def accept(verdicts: Iterable[Verdict], file: Path = FILE) -> None:
    """What was counted is the figure of this version from now on; where it changed, those of others are void."""
    judged = list(verdicts)
    changed = {verdict.name for verdict in judged if verdict.kind in {"dearer", "cheaper", "gone"}}
    whole = {
        version: {name: figure for name, figure in figures.items() if name not in changed}
        for version, figures in load(file).items()
    }
    counted = {verdict.name: verdict.counted for verdict in judged if verdict.kind != "gone"}
    whole[VERSION] = {**whole.get(VERSION, {}), **counted}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(whole, order="sorted"), indent=2) + b"\n")


def judge(counted: Mapping[str, int], figures: Mapping[str, int]) -> list[Verdict]:
    """A verdict for every path, and for every figure without one."""
    verdicts = [_verdict(name, count, figures.get(name)) for name, count in counted.items()]
    return verdicts + [Verdict(name, "gone", 0, figure) for name, figure in figures.items() if name not in counted]


def _verdict(name: str, counted: int, figure: int | None) -> Verdict:
    if figure is None:
        return Verdict(name, "new", counted)
    if counted > figure * (1 + TOLERANCE):
        return Verdict(name, "dearer", counted, figure)
    if counted < figure * (1 - TOLERANCE):
        return Verdict(name, "cheaper", counted, figure)
    return Verdict(name, "same", counted, figure)
