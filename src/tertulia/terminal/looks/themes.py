"""The themes: the terminal's own colours, and three with colours of their own.

Widgets draw with the sixteen colours that every terminal has. A theme with colours of its own replaces these.
"""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.theme import Theme

_Rgb = tuple[int, int, int]
OWN = "terminal"
"""The theme that leaves colours to the terminal."""


class _Palette:
    """The colours of one theme: two backgrounds and the eight of a terminal; bright ones are the same as the others."""

    def __init__(self, name: str, ground: _Rgb, text: _Rgb, eight: tuple[_Rgb, ...], *, dark: bool) -> None:
        self.ansi = TerminalTheme(ground, text, list(eight), list(eight))
        red, green, yellow, blue, magenta, cyan = (_hex(colour) for colour in eight[1:7])
        self.theme = Theme(
            name=name,
            primary=blue,
            secondary=cyan,
            accent=magenta,
            warning=yellow,
            error=red,
            success=green,
            foreground=_hex(text),
            background=_hex(ground),
            surface=_hex(ground),
            panel=_hex(ground),
            dark=dark,
        )


def _hex(colour: _Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


_DARK = _Palette(
    "tertulia-dark",
    (24, 26, 31),
    (214, 217, 222),
    (
        (60, 64, 72),
        (242, 119, 122),
        (140, 200, 120),
        (229, 192, 110),
        (110, 170, 240),
        (205, 145, 225),
        (100, 195, 200),
        (214, 217, 222),
    ),
    dark=True,
)
_LIGHT = _Palette(
    "tertulia-light",
    (252, 252, 250),
    (36, 38, 42),
    (
        (36, 38, 42),
        (178, 30, 40),
        (30, 110, 40),
        (130, 90, 0),
        (20, 80, 170),
        (130, 40, 150),
        (0, 105, 115),
        (90, 92, 96),
    ),
    dark=False,
)
_CONTRAST = _Palette(
    "high-contrast",
    (0, 0, 0),
    (255, 255, 255),
    (
        (128, 128, 128),
        (255, 110, 110),
        (110, 255, 110),
        (255, 255, 90),
        (120, 190, 255),
        (255, 140, 255),
        (90, 255, 255),
        (255, 255, 255),
    ),
    dark=True,
)
_PALETTES = {palette.theme.name: palette for palette in (_DARK, _LIGHT, _CONTRAST)}
_TERMINAL = Theme(
    name=OWN,
    primary="ansi_blue",
    secondary="ansi_cyan",
    accent="ansi_magenta",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
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
