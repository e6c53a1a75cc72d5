"""An output stream as a person sees it: coloured only where colours are shown, steered by nothing that is printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import TextIOWrapper
from typing import Literal, TextIO

import msgspec

Style = Literal["plain", "bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan"]
Piece = str | tuple[str, Style]
"""Some text, or some text and how it looks."""

_CODES: Mapping[Style, str] = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Terminal:
    """Writes at once. To a terminal it writes no control character that is not its own; to a pipe, every byte."""

    def __init__(self, stream: TextIO, variables: Mapping[str, str]) -> None:
        """`variables` are the environment's: NO_COLOR and TERM are heeded."""
        self._stream = stream
        self.live = stream.isatty()
        """Somebody is watching."""
        self.rewritable = self.live and variables.get("TERM") != "dumb"
        """A line can be printed over."""
        self._coloured = self.rewritable and not variables.get("NO_COLOR")
        if isinstance(stream, TextIOWrapper):
            # An answer must not be lost because the locale has no word for a character of it.
            stream.reconfigure(errors="backslashreplace")

    def write(self, *pieces: Piece) -> None:
        """Print, and stay on the line."""
        self._stream.write("".join(map(self._rendered, pieces)))
        self._stream.flush()

    def line(self, *pieces: Piece) -> None:
        """Print a line."""
        self.write(*pieces, "\n")

    def rewrite(self, *pieces: Piece) -> None:
        """Print over the line that the cursor stands on; where that cannot be done, nothing."""
        if self.rewritable:
            self._stream.write("\r\x1b[K")
            self.write(*pieces)

    def _rendered(self, piece: Piece) -> str:
        text, style = (piece, "plain") if isinstance(piece, str) else piece
        shown = harmless(text) if self.live else text
        return f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if self._coloured and style in _CODES and shown else shown


def harmless(text: str) -> str:
    """The text with its control characters made visible; line ends and tabs stay."""
    return _STEERING.sub(_visible, text.replace("\r\n", "\n"))


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def shortened(text: str, width: int = 100) -> str:
    """The text as one line of at most that many characters."""
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width and len(text) <= 4 * width else f"{line[: width - 1]}…"


def as_text(value: object) -> str:
    """A JSON value in one line; a text as it is."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
