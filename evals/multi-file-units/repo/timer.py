"""Measures."""


class Timer:
    def __init__(self, clock):
        self._clock = clock
        self._began = clock()

    def elapsed_ms(self):
        """Since it was made."""
        return int((self._clock() - self._began) * 1000)
