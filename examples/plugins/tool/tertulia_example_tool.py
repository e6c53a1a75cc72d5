"""A tool from outside: `tools = ["word_count"]` in the user's config.toml, or `Settings(tools=["word_count"])`."""

from __future__ import annotations

import tertulia


@tertulia.tool(read_only=True)
def word_count(text: str) -> int:
    """How many words a text has."""
    return len(text.split())
