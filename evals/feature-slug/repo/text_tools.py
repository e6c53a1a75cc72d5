"""Small functions on texts."""


def shorten(text, width):
    """The text, or its beginning and an ellipsis, at most so wide."""
    return text if len(text) <= width else text[: width - 1] + "…"
