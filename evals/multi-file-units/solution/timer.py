"""Measures."""


class Timer:
    def __init__(self, clock):
        self._clock = clock
        self._began = clock()

    def elapsed_s(self):
        """Since it was made."""
        return self._clock() - self._began
