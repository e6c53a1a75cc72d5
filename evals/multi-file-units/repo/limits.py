"""Limits."""

DEFAULT_MS = 1500


def limit_ms(factor=1):
    return DEFAULT_MS * factor


def is_over(elapsed_ms, factor=1):
    return elapsed_ms > limit_ms(factor)
