"""Counts names."""


class Counter:
    """How often each name was added."""

    def __init__(self):
        self._counts = {}

    def add(self, name):
        self._counts[name] = self._counts.get(name, 0) + 1

    def count(self, name=None):
        """How often a name was added; without a name, how often any was."""
        return sum(self._counts.values()) if name is None else self._counts.get(name, 0)

    def reset(self):
        self._counts.clear()


_counter = Counter()
add = _counter.add
count = _counter.count
reset = _counter.reset
