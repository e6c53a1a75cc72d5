"""A parser with a fault, to see that one is found."""

from __future__ import annotations

SEEDS = [b"harmless"]
WORDS = [b"planted"]


def fuzz(data: bytes) -> None:
    """Fails as soon as the fuzzer has put the word in."""
    if b"planted" in data:
        raise ValueError("found it")
