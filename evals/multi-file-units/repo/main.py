"""Puts it together."""

from limits import is_over, limit_ms
from timer import Timer


def describe(timer: Timer, factor=1):
    state = "over" if is_over(timer.elapsed_ms(), factor) else "within"
    return f"{timer.elapsed_ms() / 1000:.2f} s of {limit_ms(factor) / 1000:.2f} s: {state}"
