"""People."""

from tools.strings import initials, upper_first


def label(name):
    return f"{upper_first(name)} ({initials(name)})"
