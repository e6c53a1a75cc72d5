"""A process at a pseudo-terminal of 120x40: what it writes is read away, and its result comes in a file."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

COLUMNS, ROWS = 120, 40
ROOT = Path(__file__).parent.parent.parent
_SILENCE_S = 60
Press = Callable[[int], float | None]
"""Types into the terminal; returns the time at which it wants to be called again, or None for never."""


def run_at_terminal(
    arguments: Sequence[str],
    *,
    press: Press | None = None,
    look: Callable[[bytes], None] = lambda _: None,
    variables: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The figures that a process of Python writes to the file of its last argument.

    Args:
        arguments: What follows `python`, without that file.
        press: Called between readings, with the terminal.
        look: Sees what is written to the terminal.
        variables: Added to the environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        # An installed program is compiled once, so what is measured is, too.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, *arguments, str(result)],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**environment, **(variables or {})},
            cwd=ROOT,
            start_new_session=True,
        )
        os.close(inner)
        try:
            seen = _read_all(terminal, press, look)
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
        if not result.exists():
            raise RuntimeError(f"the measured process ended without a result:\n{seen.decode(errors='replace')}")
        return json.loads(result.read_text())


def _read_all(terminal: int, press: Press | None, look: Callable[[bytes], None]) -> bytes:
    """Read until the other end is closed; returns the last of it."""
    seen, again = b"", None if press is None else 0.0
    silent_since = time.monotonic()
    while time.monotonic() - silent_since < _SILENCE_S:
        wait = _SILENCE_S if again is None else max(0.0, again - time.monotonic())
        ready, _, _ = select.select([terminal], [], [], min(wait, 1.0))
        if press is not None and again is not None and time.monotonic() >= again:
            again = press(terminal)
        if not ready:
            continue
        silent_since = time.monotonic()
        try:
            read = os.read(terminal, 65_536)
        except OSError:
            # The other end is closed.
            return seen
        if not read:
            return seen
        look(read)
        seen = (seen + read)[-2_000:]
    return seen
