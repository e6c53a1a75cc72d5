"""Packs ids and digests, which every record repeats, into short strings.

Several are written as one string: a letter for the form of each, a dot, and the base64 of all their bytes. Where one
has another form they are written as they are.
"""

from __future__ import annotations

import hashlib
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence

import msgspec

Packed = str | Sequence[str | None]

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_HEX = re.compile(r"[0-9a-f]*").fullmatch
_HEX_FORMS = {16: "s", 32: "t", 64: "d"}
"""Spans and items, traces, digests, by the number of digits."""
_SIZES = {"u": 16, "s": 8, "t": 16, "d": 32, "b": 8, "-": 0, "c": 0}


def pack_ids(*ids: str | None) -> Packed:
    """The short form; `unpack` gives the same ids again."""
    forms, digits = "", ""
    for text in ids:
        form, its = _form(text, ids)
        if not form:
            return ids
        forms += form
        digits += its
    return f"{forms}.{b2a_base64(bytes.fromhex(digits), newline=False).rstrip(b'=').decode()}"


def _form(text: str | None, ids: tuple[str | None, ...]) -> tuple[str, str]:
    if text is None:
        return "-", ""
    length = len(text)
    if length == 36 and _UUID(text):
        return "u", text.replace("-", "")
    form = _HEX_FORMS.get(length)
    if form is not None and _HEX(text):
        return form, text
    if length == 20 and text.startswith("sub/") and _HEX(text, 4):
        return "b", text[4:]
    # A task without a submission of its own; it is always the id that follows.
    return ("c", "") if len(ids) > 1 and text == f"conv/{ids[1]}" else ("", "")


def unpack_ids(packed: object, count: int) -> list[str | None]:
    """So many ids in their long form. ValueError or msgspec.ValidationError for what `pack` never wrote."""
    if not isinstance(packed, str):
        ids = msgspec.convert(packed, list[str | None])
    else:
        forms, _, encoded = packed.partition(".")
        digits = a2b_base64(encoded + "=" * (-len(encoded) % 4)).hex()
        if len(forms) != count or len(digits) != sum(2 * _SIZES[form] for form in forms):
            raise ValueError("ids that are too long or too short")
        ids: list[str | None] = []
        for form in forms:
            size = 2 * _SIZES[form]
            ids.append(_long(form, digits[:size]))
            digits = digits[size:]
        if "c" in forms:
            ids[forms.index("c")] = f"conv/{ids[1]}"
    if len(ids) != count:
        raise ValueError(f"{len(ids)} ids instead of {count}")
    return ids


def _long(form: str, digits: str) -> str | None:
    match form:
        case "-" | "c":
            return None
        case "b":
            return "sub/" + digits
        case "u":
            return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        case _:
            return digits


def request_digest(instructions: str, tools: str, history: str, output_schema: str | None) -> str:
    """The digest of a whole request, made of those of its parts. One that is made like this need not be written."""
    schema = "" if output_schema is None else hashlib.sha256(output_schema.encode("utf-8", "replace")).hexdigest()
    return hashlib.sha256("\n".join((instructions, tools, history, schema)).encode("utf-8", "replace")).hexdigest()
