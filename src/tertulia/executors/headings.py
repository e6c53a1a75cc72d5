"""The headings and labels of an executor's prompt, and how a text is kept from pretending to be one.

A line of a message that reads like one of ours gets a backslash in front. It reads alike whatever it is decorated
with, in whatever case, with letters of other scripts that look the same, and with characters in it that nobody sees.
"""

from __future__ import annotations

import re
import unicodedata

HISTORY = "Conversation History"
CURRENT = "Current User Message"
PREVIOUS = "Previous execution result"

_ESCAPE = "\\"
_LOOKED_AT = 2_000
"""How far into a line a heading is searched for, what decorates its beginning left aside."""

# Everything that a reader may take for the end of a line.
_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = re.compile(f"[^{_BREAKS}]+")
# Before the first letter: spaces, marks, numbers, tags, whatever is no letter. Marks that nobody sees are among them.
_LEADING = re.compile(r"(?:[^\w<]+|[\d_]+|</?[A-Za-z][^<>]{0,80}>|<)+")
# Letters by their category, and yet nothing to be seen.
_BLANK = dict.fromkeys(map(ord, "\u115f\u1160\u3164\uffa0"))
_ALIKE = str.maketrans(
    "аӏеорсухіјѕһԁԛԝмтнквАВЕЅЈІКМНОРСТУХԜԌαειορυχνηκτΑΒΕΗΙΚΜΝΟΡΤΥΧΖɡıսոօՍ∶ː꞉ꓽ׃܃",
    "aleopcyxijshdqwmthkbABESJIKMHOPCTYXWGaeiopuxvnktABEHIKMNOPTYXZgiunoU::::::",
)
_HEADINGS = tuple("".join(heading.split()).lower().encode() for heading in (HISTORY, CURRENT, PREVIOUS))
_ROLES = ("User", "USER", "Assistant", "ASSISTANT")
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())
_ROLE = re.compile(rf"(?:{'|'.join(_ROLES)})(?:\[[^\]]*\]?)?[\s*_`]*:")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def heading(title: str) -> str:
    """A heading as it stands in a prompt."""
    return f"## {title}"


def cleaned(text: str) -> str:
    """The text without what no terminal and no pipe should get: NUL and its like, orders to turn the direction of
    writing, halves of characters. Each becomes U+FFFD, so that lengths stay.
    """
    return _CONTROLS.sub("\ufffd", text)


def escaped(text: str) -> str:
    """The text with a backslash before each line that reads like a heading or a role of ours."""
    return _LINE.sub(_escape, text) if _may_need_it(text) else text


def reads_like_ours(line: str) -> bool:
    """Whether a line could be taken for a heading or a role label."""
    seen = line if line.isascii() else line.translate(_BLANK)
    seen = seen[_leading(seen) :][:_LOOKED_AT]
    if not seen.isascii():
        seen = unicodedata.normalize("NFKD", seen).translate(_ALIKE)
        seen = "".join(c for c in seen if c.isascii() or unicodedata.category(c)[0] not in "CM")
    return _ROLE.match(seen) is not None or _letters(seen).startswith(_HEADINGS)


def _may_need_it(text: str) -> bool:
    """False for a text in which no line can be meant: it costs a hundredth of looking at each line."""
    # The dots are those of our own cuts.
    plain = text.replace("…", "")
    if not plain.isascii() or any(role in plain for role in _ROLES):
        return True
    letters = _letters(plain)
    return any(heading in letters for heading in _HEADINGS)


def _escape(line: re.Match[str]) -> str:
    return f"{_ESCAPE}{line[0]}" if reads_like_ours(line[0]) else line[0]


def _letters(text: str) -> bytes:
    """The Latin letters of a text alone, small."""
    return text.encode("ascii", "ignore").translate(None, _NO_LETTERS).lower()


def _leading(line: str) -> int:
    found = _LEADING.match(line)
    return found.end() if found else 0
