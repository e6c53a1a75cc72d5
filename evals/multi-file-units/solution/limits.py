"""Limits."""

DEFAULT_S = 1.5


def limit_s(factor=1):
    return DEFAULT_S * factor


def is_over(elapsed_s, factor=1):
    return elapsed_s > limit_s(factor)
