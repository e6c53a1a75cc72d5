"""Keys with Alt that Textual's parser takes for others: in most terminals Alt+Enter comes as ESC and CR.

Called once, before the application starts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

from textual import _ansi_sequences as ansi


class AltKey(StrEnum):
    """The names that bindings use."""

    ENTER = "alt+enter"


def know_alt_keys() -> None:
    """Have the parser tell these keys apart. Doing it again changes nothing."""
    sequences = cast("dict[str, Any]", ansi.ANSI_SEQUENCES_KEYS)
    sequences.setdefault("\x1b\r", (AltKey.ENTER,))
