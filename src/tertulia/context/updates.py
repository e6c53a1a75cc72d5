"""What an agent has to be told when its context has changed: all that it needs besides what it was told first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_HEADING = re.compile(r"(?m)^(?=## )")


def context_updates(first: str, before: Iterable[str], now: Sequence[str]) -> list[str]:
    """Nothing if all of `now` was said word for word in `before`. Else what is new, section by section, and all that
    was not said in `first`: of several updates the last is enough, and the others may be forgotten.

    A section begins with a heading.
    """
    told = "\n".join(before)
    sections = [section for text in now for part in _HEADING.split(text) if (section := part.strip())]
    news = [section for section in sections if section not in told]
    return [section for section in sections if section in news or section not in first] if news else []


def withdrawal_text(provider: str) -> str:
    """What is said of a provider that says nothing any more."""
    return f"What was said above by {provider} no longer holds."
