"""Makes Textual's parser recognise keys with Alt: in most terminals Alt+Enter arrives as ESC and CR.

Called once, before the application starts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

from textual import _ansi_sequences as ansi


class AltKey(StrEnum):
    """Key names as bindings use them."""

    ENTER = "alt+enter"


def know_alt_keys() -> None:
    """Register these keys with the parser. A second call changes nothing."""
    sequences = cast("dict[str, Any]", ansi.ANSI_SEQUENCES_KEYS)
    sequences.setdefault("\x1b\r", (AltKey.ENTER,))
