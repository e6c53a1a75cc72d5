"""The arithmetic of results: an interval around a rate, and whether two results differ by more than luck.

Exact, in whole numbers where that matters: tasks are few, and approximations mislead where most of them pass.
"""

from __future__ import annotations

import math

_Z95 = 1.959963984540054


def wilson_interval(passed: int, total: int) -> tuple[float, float]:
    """The 95 % interval of Wilson around `passed / total`, from 0 to 1; all of it where nothing was run."""
    if total == 0:
        return 0.0, 1.0
    share, squared = passed / total, _Z95 * _Z95
    centre = share + squared / (2 * total)
    spread = _Z95 * math.sqrt(share * (1 - share) / total + squared / (4 * total * total))
    scale = 1 + squared / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def sign_test(better: int, worse: int) -> float:
    """How often chance alone would divide the changed tasks at least so unevenly, in either direction.

    The exact sign test, which for single runs is McNemar's exact test: 1.0 where nothing changed.
    """
    changed = better + worse
    if changed == 0:
        return 1.0
    tail = sum(math.comb(changed, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**changed)
