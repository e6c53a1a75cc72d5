"""The styles and marks that cells are drawn with: made once for a theme, because making a style is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.style import Style

Role = Literal[
    "text",
    "dim",
    "strong",
    "emphasis",
    "strike",
    "heading",
    "code",
    "link",
    "user",
    "bar",
    "name",
    "call",
    "good",
    "bad",
    "warning",
    "added",
    "removed",
    "keyword",
    "string",
    "number",
    "function",
    "cursor",
]
"""What a style is for."""

_ATTRIBUTES: dict[Role, str] = {
    "text": "",
    "dim": "dim",
    "strong": "bold",
    "emphasis": "italic",
    "strike": "strike",
    "heading": "bold {accent}",
    "code": "{code}",
    "link": "underline {user}",
    "user": "bold",
    "bar": "{user}",
    "name": "bold {accent}",
    "call": "{code}",
    "good": "{good}",
    "bad": "{bad}",
    "warning": "{warning}",
    "added": "{good}",
    "removed": "{bad}",
    "keyword": "{accent}",
    "string": "{good}",
    "number": "{warning}",
    "function": "{user}",
    "cursor": "bold {user}",
}
_COLOURS = {
    "accent": "magenta",
    "code": "cyan",
    "user": "blue",
    "good": "green",
    "bad": "red",
    "warning": "yellow",
}
"""The sixteen colours that every terminal has; where a theme brings its own, these become its."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of cells: the shape of each says the same as its colour."""

    bar: str = "▌"
    done: str = "●"
    running: str = "◌"
    failed: str = "✗"
    asks: str = "⇢"
    answered: str = "⇠"
    question: str = "?"
    yes: str = "✓"
    plan: str = "▤"
    step_now: str = "›"
    step_open: str = "·"
    thought: str = "∴"
    notice: str = "·"
    warning: str = "!"
    output: str = "│"
    output_end: str = "╰"
    output_begin: str = "╭"
    rule: str = "─"
    cross: str = "┼"
    bullet: str = "•"
    cursor: str = "›"
    down: str = "↓"
    minus: str = "−"
    ellipsis: str = "…"


ASCII = Marks(
    bar="|",
    done="*",
    running="o",
    failed="x",
    asks=">>",
    answered="<<",
    yes="+",
    plan="#",
    step_now=">",
    step_open="-",
    thought="~",
    notice="-",
    output="|",
    output_end="`",
    output_begin=",",
    rule="-",
    cross="+",
    bullet="*",
    cursor=">",
    down="v",
    minus="-",
    ellipsis="...",
)


MARKS = {"unicode": Marks(), "ascii": ASCII}
"""Both sets by the names that settings have for them."""


class Palette:
    """The style of every role on one background, and the marks."""

    __slots__ = ("base", "code_colours", "marks", "styles")

    def __init__(self, base: Style, marks: Marks | None = None) -> None:
        """`base`: plain text, with the ground of the theme."""
        self.base = base
        self.marks = marks or Marks()
        self.styles: dict[Role, Style] = {
            role: base + Style.parse(attributes.format_map(_COLOURS)) for role, attributes in _ATTRIBUTES.items()
        }
        self.code_colours = True

    def __getitem__(self, role: Role) -> Style:
        return self.styles[role]

    def mix(self, style: Style, role: Role) -> Style:
        """A style with what a role adds: bold inside a heading, a code span inside emphasis."""
        return style + self.styles[role]

    def subdued(self) -> Palette:
        """The same palette for text that stands back: everything is dim, and code has no colours."""
        quiet = Palette.__new__(Palette)
        dim = Style(dim=True)
        quiet.base, quiet.marks, quiet.code_colours = self.base, self.marks, False
        quiet.styles = {
            role: (self.base + Style(bold=style.bold, italic=style.italic, strike=style.strike) + dim)
            for role, style in self.styles.items()
        }
        return quiet
