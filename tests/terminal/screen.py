"""What a screen shows, as text and as a map of its styles; golden files of both; and waiting for what it will show.

`python -m tests.terminal.goldens` writes the golden files anew. Look at what changed before you commit it.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from rich.style import Style
from textual.app import App
from textual.pilot import Pilot

from tertulia.terminal.app import TerminalApp
from tests.deadlines import HANG_S

GOLDENS = Path(__file__).parent / "goldens"
RENEW = "TERTULIA_RENEW_GOLDENS"
"""Where this variable is set, golden files are written instead of compared."""
SIZES = [(80, 24), (100, 30), (160, 50)]
_STEP_S = 0.01
_PLAIN = "."
_PLAIN_STYLES = ("none", "default on default")
_LETTERS = string.ascii_letters + string.digits


Rows = list[list[tuple[str, Style]]]
"""The rows of a screen: texts with their styles."""


def screen_rows(app: App[object]) -> Rows:
    """The rows of the screen, as they would be written to a terminal: texts with their styles."""
    strips = app.screen._compositor.render_strips()
    return [
        [(text, style or Style.null()) for text, style, control in strip if not control]
        for strip in strips  # pieces of one row
    ]


def screen_text(app: App[object]) -> str:
    """All that the screen shows, a line a row, without blanks at the ends."""
    return _text(screen_rows(app))


def _text(rows: Rows) -> str:
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows)


def _style_map(looks: Sequence[Rows]) -> str:
    """The styles of one screen in several looks: a letter a character, a point for the plain style, and what each
    letter means, look by look."""
    names: dict[str, str] = {}
    rows: list[str] = []
    for row in zip(*looks, strict=True):
        letters: list[str] = []
        for styles in zip(*map(_styles, row), strict=True):
            name = " | ".join(styles)
            plain = all(style in _PLAIN_STYLES for style in styles)
            letters.append(_PLAIN if plain else names.setdefault(name, _LETTERS[len(names)]))
        rows.append("".join(letters).rstrip(_PLAIN))
    return "\n".join([*rows, "", *(f"{letter} {name}" for name, letter in names.items())])


def _styles(row: list[tuple[str, Style]]) -> list[str]:
    """The style of each character of a row."""
    names: list[str] = []
    for text, style in row:
        names += [str(style.without_color + Style.from_color(style.color, style.bgcolor))] * len(text)
    return names


def assert_golden(app: App[object], name: str) -> None:
    """The screen is what the golden file of this name has; where files are renewed, it becomes that."""
    assert_golden_looks([screen_rows(app)], name)


def assert_golden_looks(looks: Sequence[Rows], name: str) -> None:
    """The screen is in each look what the golden file of this name has: one text, and the styles of all looks."""
    text, *others = map(_text, looks)
    for other in others:
        _compare(text, other, f"{name} in another look")
    shown = f"{text}\n--- styles\n{_style_map(looks)}\n"
    path = GOLDENS / f"{name}.txt"
    if os.environ.get(RENEW):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")
        return
    _compare(path.read_text(encoding="utf-8") if path.exists() else "", shown, path.name)


def _compare(expected: str, shown: str, name: str) -> None:
    if shown != expected:
        difference = difflib.unified_diff(expected.splitlines(), shown.splitlines(), "golden", "shown", lineterm="")
        pytest.fail("\n".join([f"{name} differs:", *difference]), pytrace=False)


async def until(condition: Callable[[], object], what: str = "it did not come") -> None:
    """Wait until something holds, which only a hang keeps from holding."""
    deadline = monotonic() + HANG_S
    while not condition():
        if monotonic() > deadline:
            pytest.fail(what)
        await asyncio.sleep(_STEP_S)


async def until_shown(app: App[object], text: str) -> None:
    """Wait until the screen shows a text."""
    deadline = monotonic() + HANG_S
    while text not in screen_text(app):
        if monotonic() > deadline:
            pytest.fail(f"{text!r} is not shown:\n{screen_text(app)}")
        await asyncio.sleep(_STEP_S)


async def enter(app: TerminalApp, pilot: Pilot[Any], text: str) -> None:
    """Have this in the composer, and press Enter. Faster than a key at a time, which a screen draws one by one."""
    app.scene.panes.composer.insert(text)
    await pilot.press("enter")
