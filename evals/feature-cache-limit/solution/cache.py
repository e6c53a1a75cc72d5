"""A cache in memory."""


class Cache:
    """Keeps values by key; beyond the limit the one that was used longest ago goes."""

    def __init__(self, limit=None):
        self._values = {}
        self._limit = limit

    def get(self, key, default=None):
        if key not in self._values:
            return default
        self._values[key] = self._values.pop(key)
        return self._values[key]

    def set(self, key, value):
        self._values.pop(key, None)
        self._values[key] = value
        while self._limit is not None and len(self._values) > self._limit:
            del self._values[next(iter(self._values))]

    def __len__(self):
        return len(self._values)
