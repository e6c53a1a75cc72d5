"""Signs in the composer's text: `[pasted 12,400 lines]` for a long paste, a label for a picture.

Pure. The text shows the sign; the paste or picture is sent in its place. A deleted sign sends nothing.
"""

from __future__ import annotations

from tertulia.policy.display_text import printable
from tertulia.terminal.composer.pictures import Picture

FOLD_LINES = 10
FOLD_CHARACTERS = 2_000
"""A paste with more lines or characters is folded."""


class Pastes:
    """The signs in the composer, with what each stands for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._pictures: dict[str, Picture] = {}

    def fold(self, text: str) -> str:
        """The text, or a sign for it where it is long or has control or invisible characters."""
        lines = text.count("\n") + 1
        hidden = text != printable(text)
        if lines <= FOLD_LINES and len(text) <= FOLD_CHARACTERS and not hidden:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        sign = self._unique(f"pasted {size}{', some not visible' if hidden else ''}")
        self._texts[sign] = text
        return sign

    def add_picture(self, picture: Picture) -> str:
        """The sign for a picture."""
        sign = self._unique(picture.label[1:-1])
        self._pictures[sign] = picture
        return sign

    def expand(self, text: str) -> tuple[str, list[Picture]]:
        """What is sent for the composer's text: with its pastes in full, and its pictures in their order."""
        found = sorted((text.index(sign), sign) for sign in self._pictures if sign in text)
        pictures = [self._pictures[sign] for _, sign in found]
        for _, sign in found:
            text = text.replace(sign, "")
        # All signs are replaced in one pass, so that a paste may contain the sign of another.
        pieces: list[str] = []
        at = 0
        for start, sign in sorted((text.index(sign), sign) for sign in self._texts if sign in text):
            pieces += [text[at:start], self._texts[sign]]
            at = start + len(sign)
        return "".join([*pieces, text[at:]]), pictures

    def sign_before(self, line: str) -> str:
        """The sign that a line ends with, which one key deletes; empty where there is none."""
        return next((sign for sign in (*self._texts, *self._pictures) if line.endswith(sign)), "")

    def clear(self) -> None:
        """Forget all of them: the text was sent."""
        self._texts.clear()
        self._pictures.clear()

    def _unique(self, label: str) -> str:
        sign, number = f"[{label}]", 1
        while sign in self._texts or sign in self._pictures:
            number += 1
            sign = f"[{label} ({number})]"
        return sign
