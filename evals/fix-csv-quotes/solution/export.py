"""Writes rows as CSV."""

import csv
import io


def to_csv(rows):
    """The rows as a text, a line each, ended by a line feed."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
