"""Colours for code, by pygments where it knows the language; imported when the first code is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from rich.style import Style

from tertulia.terminal.drawing.palette import Palette, Role
from tertulia.terminal.drawing.wrapping import Run

MAX_COLOURED = 48 * 1024
"""Characters of a code block that is still coloured."""

_ROLES: tuple[tuple[str, Role], ...] = (
    ("Token.Comment", "dim"),
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Name.Function", "function"),
    ("Token.Name.Class", "function"),
    ("Token.Name.Tag", "function"),
    ("Token.Name.Decorator", "number"),
    ("Token.Name.Builtin", "code"),
    ("Token.Name.Attribute", "code"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Generic.Inserted", "added"),
    ("Token.Generic.Deleted", "removed"),
    ("Token.Generic.Heading", "strong"),
)

Lex = Callable[[str], Iterable[tuple[Any, str]]]


@lru_cache(64)
def _lexer(language: str) -> Lex | None:
    # Imported here: the first frame stands before any code is to be coloured.
    import pygments.lexers
    from pygments.util import ClassNotFound

    lexers: Any = pygments.lexers  # its options have no types
    try:
        return lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False).get_tokens
    except ClassNotFound:
        return None


@lru_cache(512)
def _role(token: str) -> Role:
    for prefix, role in _ROLES:
        if token.startswith(prefix):
            return role
    return "text"


def coloured_lines(code: str, language: str, palette: Palette) -> list[list[Run]]:
    """The lines of a piece of code, coloured where that is possible."""
    plain = palette["text"]
    lex = _lexer(language.lower()) if language and palette.code_colours and len(code) <= MAX_COLOURED else None
    if lex is None:
        return [[(line, plain)] for line in code.split("\n")]
    lines: list[list[Run]] = [[]]
    for token, text in lex(code):
        style = palette[_role(str(token))]
        _add(lines, text, style)
    if "\n".join("".join(text for text, _ in line) for line in lines) != code:
        # The lexer has changed the code: better no colours than wrong code.
        return [[(line, plain)] for line in code.split("\n")]
    return lines


def _add(lines: list[list[Run]], text: str, style: Style) -> None:
    first, *others = text.split("\n")
    if first:
        lines[-1].append((first, style))
    lines += [[(line, style)] if line else [] for line in others]
