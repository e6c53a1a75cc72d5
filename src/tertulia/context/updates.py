"""What an agent has to be told again when its context has changed: no more than is new."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tertulia.context.provider import Fragment

_HEADING = re.compile(r"(?m)^(?=## )")


def updates(before: Sequence[Fragment], now: Sequence[Fragment], *, complete: bool = True) -> list[str]:
    """Of each text what it says differently, section by section; and whose text is gone.

    `complete`: every provider has answered. A text that is missing where one has not is not known to be gone.
    """
    told = "\n".join(fragment.text for fragment in before)
    news = [section for fragment in now for section in unheard(fragment.text, told)]
    if complete:
        speaking = {fragment.provider for fragment in now}
        silent = dict.fromkeys(fragment.provider for fragment in before if fragment.provider not in speaking)
        news += [f"What was said above by {name} no longer holds." for name in silent]
    return news


def unheard(text: str, heard: str) -> list[str]:
    """The sections of a text that were not said word for word. A section begins with a heading."""
    sections = (section.strip() for section in _HEADING.split(text))
    return [section for section in sections if section and section not in heard]
