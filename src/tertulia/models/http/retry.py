"""Retries of a request to a provider: how often, how long to pause before each, and what the provider says about that.

Neither sends nor waits: the wire does, by these numbers. Which failures may be temporary is decided in
`provider_error.py`.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from typing import Literal

from tertulia.models.catalog import ModelProvider

MAX_WAITING_S = 30.0
"""Seconds of waiting between the attempts of one request, in total."""
_FIRST_PAUSE_S = 0.5
_ADVICE = re.compile(r"try again in ([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(ms|s)\b", re.IGNORECASE)

RetryKind = Literal["request", "stream"]
"""Which of a provider's two settings limits the retries."""


class RetryBudget:
    """How often one request is made again: as often as the provider's settings say, and for 30 s in all.

    Pauses count, and so does the time since the first failure: a provider that lets each attempt time out is not asked
    for ever.
    """

    __slots__ = ("_failed_at", "_left", "_limits", "made")

    def __init__(self, provider: ModelProvider) -> None:
        self._limits = {"request": provider.request_max_retries, "stream": provider.stream_max_retries}
        self._left = MAX_WAITING_S
        self._failed_at: float | None = None
        self.made = 0
        """How many retries were made."""

    def pause(self, retry: RetryKind | None, after: float | None = None) -> float | None:
        """Seconds to wait before the next attempt, `after` where the provider says so; None: no further attempt."""
        if retry is None or self.made >= self._limits[retry]:
            return None
        # Random, so that conversations that failed at the same time do not retry at the same time.
        pause = _FIRST_PAUSE_S * 2**self.made * random.uniform(0.8, 1.2) if after is None else after
        now = asyncio.get_running_loop().time()
        self._failed_at = now if self._failed_at is None else self._failed_at
        if pause > self._left or now - self._failed_at > MAX_WAITING_S:
            return None
        self._left -= pause
        self.made += 1
        return pause


def retry_after(headers: Mapping[str, str], message: str) -> float | None:
    """Seconds that a refusal asks to wait, in a header or in its message; None where it does not say."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        value = headers.get("retry-after")
        if value is None:
            return advised_pause(message)
        return float(value) if value.strip().isdigit() else _until(value, headers["date"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _until(then: str, now: str) -> float:
    """Seconds between two dates, both by the provider's clock, which need not be ours."""
    # Here and not above: it takes longer to import than all of this module, and dates are rare.
    from email.utils import parsedate_to_datetime

    return max(0.0, (parsedate_to_datetime(then) - parsedate_to_datetime(now)).total_seconds())


def advised_pause(message: str) -> float | None:
    """Seconds that a message asks to wait: "try again in 2 s"; None where it does not say."""
    match = _ADVICE.search(message)
    if match is None:
        return None
    return float(match[1]) / (1000 if match[2].lower() == "ms" else 1)
