"""The short spelling of what every record repeats: ids and digests.

A UUID or a run of hex digits is written as the base64 of its bytes behind a mark. Everything else stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

_MARK = "~"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX = re.compile(r"(?:[0-9a-f]{8}){2,16}")
_DIGEST_CHARACTERS = 32


def pack(text: str) -> str:
    """The short form; `unpack` gives the same text again."""
    length = len(text)
    if length == 36 and _UUID.fullmatch(text):
        return "~u" + _base64(text.replace("-", ""))
    if 16 <= length <= 128 and _HEX.fullmatch(text):
        return "~h" + _base64(text)
    if text.startswith("sub/") and _HEX.fullmatch(text, 4) and length <= 132:
        return "~s" + _base64(text[4:])
    return "~~" + text if text.startswith(_MARK) else text


def unpack(text: str) -> str:
    """The long form. ValueError for what `pack` never wrote."""
    if not text.startswith(_MARK):
        return text
    kind, rest = text[1:2], text[2:]
    if kind == _MARK:
        return rest
    digits = urlsafe_b64decode(rest + "=" * (-len(rest) % 4)).hex()
    match kind:
        case "u":
            return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        case "h":
            return digits
        case "s":
            return "sub/" + digits
        case _:
            raise ValueError("an id of an unknown spelling")


def digest_of(message_id: str) -> str:
    """What is recorded of a client's message id: enough to know it again, and no text of his."""
    return hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]


def _base64(digits: str) -> str:
    return urlsafe_b64encode(bytes.fromhex(digits)).rstrip(b"=").decode()
