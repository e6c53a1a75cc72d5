"""People."""

from helpers import initials, upper_first


def label(name):
    return f"{upper_first(name)} ({initials(name)})"
