"""Puts it together."""

from limits import is_over, limit_s
from timer import Timer


def describe(timer: Timer, factor=1):
    state = "over" if is_over(timer.elapsed_s(), factor) else "within"
    return f"{timer.elapsed_s():.2f} s of {limit_s(factor):.2f} s: {state}"
