"""The themes: the terminal's own colours, and three with colours of their own.

Widgets draw with the sixteen colours that every terminal has. A theme with colours of its own replaces these.
"""

from __future__ import annotations

from typing import Any

from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.theme import Theme

OWN = "terminal"
"""The theme that leaves colours to the terminal."""


class _Palette:
    """The colours of one theme: background, text, and the eight of a terminal, whose bright ones are the same."""

    def __init__(self, name: str, ground: str, text: str, eight: str, *, dark: bool) -> None:
        """`eight`: black, red, green, yellow, blue, magenta, cyan and white."""
        colours = eight.split()
        rgb = [_rgb(colour) for colour in colours]
        self.ansi = TerminalTheme(_rgb(ground), _rgb(text), rgb, rgb)
        self.theme = Theme(name=name, dark=dark, **_roles(*colours[1:7], ground=ground, text=text))


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _roles(
    red: str, green: str, yellow: str, blue: str, magenta: str, cyan: str, *, ground: str, text: str
) -> dict[str, Any]:
    """Which colour is used for what."""
    colours = {"primary": blue, "secondary": cyan, "accent": magenta, "warning": yellow, "error": red, "success": green}
    return {**colours, "foreground": text, "background": ground, "surface": ground, "panel": ground}


_DARK = _Palette(
    "tertulia-dark",
    ground="#181a1f",
    text="#d6d9de",
    eight="#3c4048 #f2777a #8cc878 #e5c06e #6eaaf0 #cd91e1 #64c3c8 #d6d9de",
    dark=True,
)
_LIGHT = _Palette(
    "tertulia-light",
    ground="#fcfcfa",
    text="#24262a",
    eight="#24262a #b21e28 #1e6e28 #825a00 #1450aa #822896 #006973 #5a5c60",
    dark=False,
)
_CONTRAST = _Palette(
    "high-contrast",
    ground="#000000",
    text="#ffffff",
    eight="#808080 #ff6e6e #6eff6e #ffff5a #78beff #ff8cff #5affff #ffffff",
    dark=True,
)
_PALETTES = {palette.theme.name: palette for palette in (_DARK, _LIGHT, _CONTRAST)}
_SIX = ("ansi_red", "ansi_green", "ansi_yellow", "ansi_blue", "ansi_magenta", "ansi_cyan")
_TERMINAL = Theme(
    name=OWN,
    **_roles(*_SIX, ground="ansi_default", text="ansi_default"),
    boost="ansi_default",
    ansi=True,
    # Nothing here depends on a dark or light background: the cursor is drawn as reversed text.
    variables={
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "border-blurred": "ansi_bright_black",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
        "block-cursor-text-style": "reverse",
        "input-cursor-background": "ansi_default",
        "input-cursor-foreground": "ansi_default",
        "input-cursor-text-style": "reverse",
        "input-selection-background": "ansi_blue",
        "input-selection-foreground": "ansi_bright_white",
        "screen-selection-background": "ansi_blue",
        "screen-selection-foreground": "ansi_bright_white",
    },
)
THEMES = (OWN, *_PALETTES)
"""The names of all themes."""


def register_themes(app: App[int]) -> None:
    """Let an application use our themes; it begins with the terminal's own colours."""
    for theme in (_TERMINAL, *(palette.theme for palette in _PALETTES.values())):
        app.register_theme(theme)
    use_theme(app, OWN)


def use_theme(app: App[int], name: str) -> None:
    """Let an application have the colours of this theme, one of `THEMES`."""
    if (palette := _PALETTES.get(name)) is not None:
        app.ansi_theme_dark = app.ansi_theme_light = palette.ansi
    app.theme = name
