"""The works that are compared: what each is, how large, and what its figures are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """One figure of a work. Less is better in all of them."""

    name: str
    unit: str
    is_ratio: bool = True
    """Whether it is set against the least possible; a count of processes is not."""


@dataclass(frozen=True)
class Work:
    """One of W1 to W8."""

    id: str
    title: str
    description: str
    metrics: Callable[[Sizes], tuple[Metric, ...]]
    full: Sizes
    quick: Sizes
    again: Sizes | None = None
    """How much is done in later rounds by a peer that took long in the first one; None: nothing."""

    def sizes(self, *, is_quick: bool) -> Sizes:
        """How much of it is done."""
        return self.quick if is_quick else self.full


def _fixed(*metrics: Metric) -> Callable[[Sizes], tuple[Metric, ...]]:
    return lambda _: metrics


def _turn_metrics(sizes: Sizes) -> tuple[Metric, ...]:
    return tuple(Metric(f"turn {mark:,}", "ms CPU") for mark in sizes["marks"])


def _mcp_metrics(sizes: Sizes) -> tuple[Metric, ...]:
    counts = (Metric(f"servers for {count}", "processes", is_ratio=False) for count in sizes["counts"])
    return (Metric("CPU", "ms CPU a turn"), *counts)


WORKS: tuple[Work, ...] = (
    Work(
        "W1",
        "A turn, as the history grows",
        "One conversation; CPU of a turn (the mean of the last five before each mark). A message has 300 bytes, and so "
        "has the answer.",
        _turn_metrics,
        {"marks": [10, 100, 1_000], "window": 5, "budget_s": 420},
        {"marks": [10, 50, 100], "window": 5, "budget_s": 120},
        # Peers that send and encode their history anew spend minutes on the way to turn 1,000.
        {"marks": [10, 100], "window": 5, "budget_s": 120},
    ),
    Work(
        "W2",
        "Many conversations",
        "Each is opened, has one turn and stays open. Memory is what the process grew by, divided by their number.",
        _fixed(Metric("CPU", "ms CPU each"), Metric("memory", "KB each", is_ratio=False)),
        {"count": 1_000},
        {"count": 200},
    ),
    Work(
        "W3",
        "A call of an MCP tool a turn",
        "Two requests and one call over standard input and output. Then so many conversations, each of which has made "
        "a call: how many server processes run.",
        _mcp_metrics,
        {"calls": 20, "counts": [10, 100]},
        {"calls": 10, "counts": [10]},
    ),
    Work(
        "W4",
        "Import and installation",
        "CPU of the imports that its program needs, over bare Python; what is installed for all these works.",
        _fixed(
            Metric("import", "ms CPU"),
            Metric("installed", "MB", is_ratio=False),
            Metric("dependencies", "packages", is_ratio=False),
        ),
        {"times": 3},
        {"times": 1},
    ),
    Work(
        "W5",
        "Delegation",
        "An agent asks another one and goes on with its answer: three requests.",
        _fixed(Metric("CPU", "ms CPU")),
        {"times": 20},
        {"times": 5},
    ),
    Work(
        "W6",
        "A tool returns 10 MB",
        "A Python function as a tool. What is then sent to the model shows whether its output was bounded.",
        _fixed(
            Metric("CPU", "ms CPU"),
            Metric("peak memory", "MB", is_ratio=False),
            Metric("sent to the model", "MB", is_ratio=False),
        ),
        {"times": 3},
        {"times": 1},
    ),
    Work(
        "W7",
        "Cancelling a turn",
        "The provider is silent; by the clock, from the cancellation until the turn is over (the median of several).",
        _fixed(Metric("latency", "ms")),
        {"times": 20},
        {"times": 5},
    ),
    Work(
        "W8",
        "A hundred children at once",
        "An agent asks 100 others in one answer and goes on when all have answered; limits are raised.",
        _fixed(Metric("CPU a child", "ms CPU"), Metric("whole, by the clock", "ms")),
        {"children": 100},
        {"children": 100},
    ),
)
