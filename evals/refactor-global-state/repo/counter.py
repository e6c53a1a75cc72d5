"""Counts names."""

_counts = {}
_total = 0


def add(name):
    global _total
    _counts[name] = _counts.get(name, 0) + 1
    _total += 1


def count(name=None):
    """How often a name was added; without a name, how often any was."""
    return _total if name is None else _counts.get(name, 0)


def reset():
    global _total
    _counts.clear()
    _total = 0
