"""What is in stock."""

from collections import Counter


class Inventory:
    """Counts items by name."""

    def __init__(self):
        self._counts = Counter()

    def add(self, name, count=1):
        self._counts[name] += count

    def remove(self, name, count=1):
        if self._counts[name] <= count:
            raise KeyError(name)
        self._counts[name] -= count

    def names(self):
        return sorted(self._counts)
