"""Small functions on texts."""

import re
import unicodedata


def shorten(text, width):
    """The text, or its beginning and an ellipsis, at most so wide."""
    return text if len(text) <= width else text[: width - 1] + "…"


def slug(title):
    """The title as a part of an address: lower case, words joined by hyphens, no accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", title) if not unicodedata.combining(c))
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
