"""A cache in memory."""


class Cache:
    """Keeps values by key."""

    def __init__(self):
        self._values = {}

    def get(self, key, default=None):
        return self._values.get(key, default)

    def set(self, key, value):
        self._values[key] = value

    def __len__(self):
        return len(self._values)
