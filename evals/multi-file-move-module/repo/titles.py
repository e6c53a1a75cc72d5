"""Titles."""

import helpers


def title(text):
    return helpers.upper_first(text) + "."
