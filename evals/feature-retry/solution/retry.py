"""Tries a call again that failed."""

import functools


def retry(times, exceptions=(Exception,)):
    """A decorator: at most so many tries."""
    if times < 1:
        raise ValueError("times must be at least 1")

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            for left in reversed(range(times)):
                try:
                    return function(*args, **kwargs)
                except exceptions:
                    if not left:
                        raise

        return call

    return decorate
