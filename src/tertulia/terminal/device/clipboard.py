"""Copies a text: by the terminal (OSC 52), and by a program of the desktop for terminals that do not obey that."""

from __future__ import annotations

import asyncio
import subprocess

from textual.app import App

_PROGRAMS = (["wl-copy"], ["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"], ["pbcopy"])
_TIMEOUT_S = 3.0


async def copy_text(app: App[int], text: str) -> None:
    """Put a text on the clipboard. No terminal says whether it did, so a program is tried as well."""
    app.copy_to_clipboard(text)
    await asyncio.to_thread(copy_by_program, text)


def copy_by_program(text: str) -> bool:
    """Have the first program of the desktop that works here take the text; False where none does."""
    for words in _PROGRAMS:
        try:
            done = subprocess.run(
                words, input=text.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return True
    return False
