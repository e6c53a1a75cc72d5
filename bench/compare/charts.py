"""Plots as SVG text: bars and lines over logarithmic axes. No script, no font, nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bench.compare.results import Spread
from bench.compare.show import ratio_text
from tertulia.evals.report.page import svg_figure

_LABEL = 180
_WIDTH = 760
_ROW = 24
_RIGHT = 84
_TURN_LABEL = 64
"""Room for “at turn 100” beside the name of a peer."""


@dataclass(frozen=True)
class Series:
    """A peer in a plot."""

    title: str
    colour: str
    points: Sequence[tuple[float, Spread]]
    """Of a line: where, and how much; of a bar, one."""
    is_own: bool = False

    @property
    def name_class(self) -> str:
        """How its name is set."""
        return "name own" if self.is_own else "name"


def bars(series: Sequence[Series], caption: str) -> str:
    """A bar a peer, from one (the least possible) on; a thin line shows the spread."""
    greatest = max((point.high for one in series for _, point in one.points), default=1)
    axis = _Axis(min(1, *(point.low for one in series for _, point in one.points)), greatest, _LABEL, _WIDTH - _RIGHT)
    height = _ROW * len(series) + 30
    parts = [axis.vertical_grid(height - 26)]
    for row, one in enumerate(series):
        ((_, spread),) = one.points
        top = row * _ROW + 4
        start, end = sorted((axis.place(1), axis.place(spread.median)))
        middle = top + 8
        parts.append(
            f'<text class="{one.name_class}" x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">'
            f"{escape(one.title)}</text>"
            f'<rect x="{start:.1f}" y="{top}" width="{max(end - start, 2):.1f}" height="16" fill="{one.colour}"/>'
            f'<path class="spread" d="M{axis.place(spread.low):.1f} {middle}H{axis.place(spread.high):.1f}"/>'
            f'<text class="value" x="{max(axis.place(spread.high), end) + 6:.1f}" y="{top + 12}">'
            f"{ratio_text(spread.median)}</text>"
        )
    parts.append(axis.labels(height - 10))
    return svg_figure((_WIDTH, height), caption, parts)


def lines(series: Sequence[Series], caption: str) -> str:
    """A line a peer, both axes logarithmic; names stand at the right end, moved apart where they would meet."""
    height, bottom = 380, 340
    points = [point for one in series for point in one.points]
    across = _Axis(min(x for x, _ in points), max(x for x, _ in points), 52, _WIDTH - _LABEL - _TURN_LABEL)
    up = _Axis(min(1, *(y.median for _, y in points)), max(y.median for _, y in points), bottom, 12)
    parts = [up.horizontal_grid(52, _WIDTH - _LABEL - _TURN_LABEL)]
    marks = sorted({x for x, _ in points})
    parts += [
        f'<text class="tick" x="{across.place(x):.1f}" y="{bottom + 22}" text-anchor="middle">turn {x:,.0f}</text>'
        for x in marks
    ]
    heights = _apart({one.title: up.place(one.points[-1][1].median) for one in series if one.points})
    for one in series:
        if not one.points:
            continue
        drawn = [(across.place(x), up.place(y.median)) for x, y in one.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn)
        parts.append(f'<path d="M{path}" fill="none" stroke="{one.colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{one.colour}"/>' for x, y in drawn]
        parts.append(_line_name(one, drawn[-1], across.place(marks[-1]), heights[one.title], marks[-1]))
    return svg_figure((_WIDTH, height), caption, parts)


def _line_name(one: Series, end: tuple[float, float], right: float, height: float, last: float) -> str:
    """At the right, with a thin line to where its own ends; of one that ended earlier it says where."""
    turn, spread = one.points[-1]
    early = "" if turn == last else f'<tspan class="dim"> at turn {turn:,.0f}</tspan>'
    dashes = "" if turn == last else ' stroke-dasharray="2 4"'
    return (
        f'<path d="M{end[0]:.1f} {end[1]:.1f}L{right + 14:.1f} {height:.1f}" fill="none" stroke="{one.colour}" '
        f'stroke-width="1"{dashes}/>'
        f'<text class="{one.name_class}" x="{right + 18:.1f}" y="{height + 4:.1f}">{escape(one.title)} '
        f"{ratio_text(spread.median)}{early}</text>"
    )


def _apart(heights: Mapping[str, float], least: float = 15) -> dict[str, float]:
    """The heights, from top to bottom, each at least so far below the one before."""
    placed: dict[str, float] = {}
    last = -math.inf
    for title, height in sorted(heights.items(), key=lambda pair: pair[1]):
        last = max(height, last + least)
        placed[title] = last
    # What was pushed below the axis moves up again, and the others with it.
    above = math.inf
    for title in reversed(placed):
        placed[title] = above = min(placed[title], above - least, 338)
    return placed


class _Axis:
    """Where on the picture a value is, by its logarithm."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._high = math.log10(max(low, 1e-3)), math.log10(max(high, low * 1.5, 1e-3) * 1.05)
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        """The coordinate of a value."""
        share = (math.log10(max(value, 1e-3)) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def _ticks(self) -> list[float]:
        steps = (1, 2, 5) if self._high - self._low < 1.5 else (1,)
        powers = range(math.floor(self._low), math.ceil(self._high) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps]
        return [tick for tick in ticks if self._low - 1e-9 <= math.log10(tick) <= self._high]

    def vertical_grid(self, bottom: float) -> str:
        """A line at every tick, from the top."""
        return "".join(f'<path class="grid" d="M{self.place(tick):.1f} 0V{bottom}"/>' for tick in self._ticks())

    def horizontal_grid(self, left: float, right: float) -> str:
        """A line at every tick, with its label at the left."""
        return "".join(
            f'<path class="grid" d="M{left} {self.place(tick):.1f}H{right}"/>'
            f'<text class="tick" x="{left - 6}" y="{self.place(tick) + 4:.1f}" text-anchor="end">{tick:g}×</text>'
            for tick in self._ticks()
        )

    def labels(self, y: float) -> str:
        """The ticks as numbers, below the grid."""
        return "".join(
            f'<text class="tick" x="{self.place(tick):.1f}" y="{y}" text-anchor="middle">{tick:g}×</text>'
            for tick in self._ticks()
        )
