"""Titles."""

from tools import strings


def title(text):
    return strings.upper_first(text) + "."
