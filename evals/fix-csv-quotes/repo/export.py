"""Writes rows as CSV."""


def to_csv(rows):
    """The rows as a text, a line each, ended by a line feed."""
    return "".join(",".join(str(value) for value in row) + "\n" for row in rows)
