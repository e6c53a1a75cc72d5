"""A secret that must be nowhere, and everything it could look like."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib

CANARY = 'Kanarien"vogel-\u00fc\\7f3a91'


def spellings(secret: str) -> dict[str, bytes]:
    """Each of them is long enough not to be there by chance."""
    raw = secret.encode()
    return {
        "raw": raw,
        "JSON": json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
        "JSON, ASCII": json.dumps(secret)[1:-1].encode(),
        "JSON in JSON": json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False)[3:-3].encode(),
        **{f"base64 + {n}": _base64(raw, n) for n in range(3)},
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "UTF-16": secret.encode("utf-16-le"),
        "UTF-16, big": secret.encode("utf-16-be"),
        "reversed": raw[::-1],
        "a part": raw[:8],
    }


def _base64(raw: bytes, offset: int) -> bytes:
    """The middle of it, as it looks when it begins somewhere in a longer text."""
    return base64.b64encode(b"\0" * offset + raw).rstrip(b"=")[4:-2]


def sightings(data: bytes, secret: str = CANARY) -> list[str]:
    """The spellings in which a secret is found, in compressed parts too."""
    return sightings_in(unpacked(data), secret)


def unpacked(data: bytes) -> list[bytes]:
    """Where to look: all of it, and what its compressed parts hold."""
    packed = [data[found.start() :] for found in re.finditer(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]", data)]
    return [data, *(text for part in packed if (text := _inflated(part)) is not None)]


def sightings_in(places: list[bytes], secret: str) -> list[str]:
    """The spellings that are found in any of them."""
    forms = spellings(secret)
    part = forms["a part"]
    # Where its first letters are not, no spelling is that begins with them.
    if not any(part in place for place in places):
        forms = {name: form for name, form in forms.items() if part not in form}
    return sorted({name for name, form in forms.items() if any(form in place for place in places)})


def _inflated(data: bytes) -> bytes | None:
    try:
        return zlib.decompressobj(47).decompress(data, 1 << 20)
    except zlib.error:
        return None


def hidden(secret: str = CANARY) -> list[bytes]:
    """What `sightings` must find, to know that it looks."""
    return [
        *(b"x" + form + b"y" for form in spellings(secret).values()),
        b"--" + gzip.compress(secret.encode(), mtime=0),
    ]
