"""What was measured: samples of all rounds, and the arithmetic of medians, spreads and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.compare.works import Metric

ONCE = "What took longer than a minute was measured in one round."


@dataclass(frozen=True)
class Spread:
    """The median of some samples, and the least and the greatest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        return cls(statistics.median(samples), min(samples), max(samples))


@dataclass(frozen=True)
class Cell:
    """One figure of one peer: a value and its ratio to the least, or a note that says why there is none.

    A value may have a note as well: that it is of one round only.
    """

    value: Spread | None = None
    ratio: Spread | None = None
    note: str = ""


@dataclass(frozen=True)
class PeerLine:
    """A peer as it is shown."""

    name: str
    title: str
    version: str
    note: str = ""
    """Why it did not take part, where it did not."""


@dataclass
class Samples:
    """The figures of one work: of each peer a dictionary a round, or a note."""

    figures: dict[str, dict[int, Mapping[str, float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    long: set[str] = field(default_factory=set)
    """Peers that took so long that some or all of the work was not done again."""

    def add(self, peer: str, number: int, figures: Mapping[str, float]) -> None:
        """Keep the figures of a peer in this round."""
        self.figures.setdefault(peer, {})[number] = figures

    def cell(self, peer: str, metric: Metric, least: str) -> Cell:
        """The median over the rounds. A ratio is taken within a round, and the median of those is given."""
        rounds = self.figures.get(peer, {})
        values = {number: figures[metric.name] for number, figures in rounds.items() if metric.name in figures}
        if not values:
            return Cell(note=self.notes.get(peer) or self._stopped(rounds) or "not measured")
        lowest = self.figures.get(least, {})
        ratios = [
            value / lowest[number][metric.name]
            for number, value in values.items()
            if metric.is_ratio and lowest.get(number, {}).get(metric.name, 0) > 0
        ]
        note = ONCE if peer in self.long and len(values) == 1 else ""
        return Cell(Spread.of(list(values.values())), Spread.of(ratios) if ratios else None, note)

    @staticmethod
    def _stopped(rounds: Mapping[int, Mapping[str, float]]) -> str:
        turns = [figures["stopped at turn"] for figures in rounds.values() if "stopped at turn" in figures]
        return f"The time was over at turn {max(turns):,.0f}." if turns else ""


@dataclass(frozen=True)
class WorkTable:
    """One work: its peers down, its figures across."""

    id: str
    title: str
    description: str
    metrics: tuple[Metric, ...]
    cells: Mapping[str, Mapping[str, Cell]]
    """By the name of the peer, then of the figure."""


@dataclass(frozen=True)
class Comparison:
    """All that a run found, ready to be shown or written."""

    date: str
    machine: Mapping[str, str]
    is_quick: bool
    rounds: int
    least: str
    peers: tuple[PeerLine, ...]
    works: tuple[WorkTable, ...]
    is_stopped: bool = False
    """Whether it was interrupted: the last round, or more, is not whole."""

    def title(self, peer: str) -> str:
        """How a peer is called in tables."""
        return next(line.title for line in self.peers if line.name == peer)

    def to_json(self) -> dict[str, Any]:
        """As an object of plain values."""
        return {
            "date": self.date,
            "machine": dict(self.machine),
            "quick": self.is_quick,
            "rounds": self.rounds,
            "stopped": self.is_stopped,
            "ratios_to": self.least,
            "peers": [{"name": p.name, "title": p.title, "version": p.version, "note": p.note} for p in self.peers],
            "works": [_work_json(work) for work in self.works],
        }


def _work_json(work: WorkTable) -> dict[str, Any]:
    return {
        "id": work.id,
        "title": work.title,
        "metrics": [
            {
                "name": metric.name,
                "unit": metric.unit,
                "peers": {peer: _cell_json(cells[metric.name]) for peer, cells in work.cells.items()},
            }
            for metric in work.metrics
        ],
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    if cell.value is None:
        return {"note": cell.note}
    ratio = None if cell.ratio is None else _spread_json(cell.ratio)
    noted = {"note": cell.note} if cell.note else {}
    return {"value": _spread_json(cell.value), "ratio": ratio, **noted}


def _spread_json(spread: Spread) -> dict[str, float]:
    return {"median": spread.median, "low": spread.low, "high": spread.high}
