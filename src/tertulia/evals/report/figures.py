"""Numbers of results as texts for people."""

from __future__ import annotations

from collections.abc import Mapping

from tertulia.evals.results import Outcome


def interval_text(low: float, high: float) -> str:
    """An interval of shares: `62–91 %`."""
    return f"{100 * low:.0f}–{100 * high:.0f} %"


def count_text(count: int) -> str:
    """A number, short where it is large: `1.2 M`."""
    if count >= 10_000_000:
        return f"{count / 1_000_000:,.0f} M"
    return f"{count / 1_000_000:.1f} M" if count >= 1_000_000 else f"{count:,}"


def cost_text(cost_usd: float | None) -> str:
    """US dollars; `?` where a price is not known."""
    if cost_usd is None:
        return "?"
    return f"${cost_usd:,.2f}" if cost_usd >= 0.1 or cost_usd == 0 else f"${cost_usd:.4f}"


def seconds_text(seconds: float) -> str:
    """A duration: `4.2 s`, `3 min`."""
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def failures_text(failures: Mapping[Outcome, int]) -> str:
    """Failures by kind: `wrong 3, timeout 1`."""
    return ", ".join(f"{outcome} {count}" for outcome, count in failures.items())
