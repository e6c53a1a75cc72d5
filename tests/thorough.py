"""How many examples a property is tried with: a quarter in `make test`, all with TERTULIA_THOROUGH=1, at night."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("TERTULIA_THOROUGH"))


def examples(number: int) -> int:
    """So many at night."""
    return number if THOROUGH else max(number // 4, 50)
