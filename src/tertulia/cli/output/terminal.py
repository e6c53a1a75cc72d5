"""Writing to standard output and error: styled text for people, JSON lines for programs.

Nothing that is printed can steer a terminal. A pipe gets the same text, without colours: most pipes end on a screen, in
a pager or in a log. In JSON lines everything is escaped that some program takes for the end of a line, or that a
terminal obeys or hides (HARDENING E11); decoded, the value is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import TextIOWrapper
from typing import Any, Literal, TextIO

import msgspec

from tertulia.policy.display_text import PrintableStream, printable

Style = Literal["plain", "bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan"]
StyledText = str | tuple[str, Style]
"""Some text, or some text and how it looks."""

_CODES: Mapping[Style, str] = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip

_ESCAPED = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_encode = msgspec.json.Encoder().encode


class TerminalOutput:
    """Writes at once, and no character that steers or hides and is not its own: see `policy.display_text.printable`."""

    def __init__(self, stream: TextIO, variables: Mapping[str, str]) -> None:
        """`variables` are the environment's: NO_COLOR, TERM and ACCESSIBLE have an effect."""
        self._stream = stream
        self._streamed = PrintableStream()
        self.live = stream.isatty()
        """Whether the stream is a terminal."""
        self.rewritable = self.live and variables.get("TERM") != "dumb" and not variables.get("ACCESSIBLE")
        """Whether a line can be printed over."""
        self.coloured = self.rewritable and not variables.get("NO_COLOR")
        """Whether it may have colours, and whatever else is for the eye alone."""
        if isinstance(stream, TextIOWrapper):
            # An answer must not be lost because the locale cannot encode a character of it.
            stream.reconfigure(errors="backslashreplace")

    def write(self, *pieces: StyledText) -> None:
        """Print, and stay on the line."""
        self._write_raw("".join(map(self._rendered, pieces)))

    def stream(self, piece: str) -> None:
        """Print a piece of a text that goes on; `end_stream` prints what was held of it."""
        self._write_raw(self._streamed.feed(piece))

    def end_stream(self) -> None:
        """The text that came in pieces is over."""
        self._write_raw(self._streamed.end())

    def line(self, *pieces: StyledText) -> None:
        """Print the pieces and end the line."""
        self.write(*pieces, "\n")

    def bell(self) -> None:
        """Ring, where a person hears it."""
        if self.live:
            self._write_raw("\a")

    def rewrite(self, *pieces: StyledText) -> None:
        """Print over the line that the cursor stands on; where that cannot be done, nothing."""
        if self.rewritable:
            self._stream.write("\r\x1b[K")
            self.write(*pieces)

    def _write_raw(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _rendered(self, piece: StyledText) -> str:
        text, style = (piece, "plain") if isinstance(piece, str) else piece
        shown = printable(text)
        return f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if self.coloured and style in _CODES and shown else shown


def shorten(text: str, width: int = 100) -> str:
    """The text as one line of at most that many characters."""
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width and len(text) <= 4 * width else f"{line[: width - 1]}…"


def one_line_json(value: object) -> str:
    """A JSON value in one line; a text as it is."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# ---- JSON lines


def json_line(value: Any) -> bytes:
    """The value with a line feed behind it, and none before."""
    return escape_invisible(_encode(value)) + b"\n"


def escape_invisible(encoded: bytes) -> bytes:
    """JSON with everything escaped that a screen would obey or not show."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _ESCAPED.sub(_escape, encoded.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
