"""Warnings that one client can cause any number of: each kind is logged once, and then with its count, ever rarer.

Else a client could fill the log, and with it the disk.
"""

from __future__ import annotations

import logging
from collections import Counter

MAX_KINDS = 100
"""Whose names a client may choose; all others count as one."""
_OTHERS = "of other kinds"


class CountedLog:
    """For one connection: the 1st, the 10th, the 100th … warning of a kind is written, and the others are counted."""

    __slots__ = ("_counts", "_log")

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._counts: Counter[str] = Counter()

    def tell(self, kind: str, words: str) -> None:
        """`kind`: what counts as the same. `words`: what is written of it, the first time and with its count."""
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind = _OTHERS
            words = "more kinds of messages were not carried out than are told apart"
        self._counts[kind] += 1
        count = self._counts[kind]
        if count == 1:
            self._log.warning("%s", words)
        elif str(count).strip("0") == "1":
            self._log.warning("%s (%s times so far)", words, f"{count:,}")
