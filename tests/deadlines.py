"""How long a test waits for what must come: on a machine with much other work only a hang takes longer."""

from __future__ import annotations

HANG_S = 100.0
"""Below the `timeout` of pytest, so that a wait that fails says what it waited for."""
