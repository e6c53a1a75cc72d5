"""Which request an answer belongs to that cannot be read, so that its caller is told at once and not by a time limit.

Builds nothing: it looks at the beginning of a message and at its end, where servers write the id. One that has it
anywhere else, or not at all, cannot be told from any other text: it is dropped, and all calls go on waiting for their
own answers, each within its own time limit.
"""

from __future__ import annotations

import re

import msgspec

UNREADABLE = -32700
"""The code of the error that stands in place of such an answer; JSON-RPC's own for what cannot be parsed."""
PREFIX = "Unreadable: "
"""How the message of that error begins."""

_LOOKED_AT = 1024
_READ_WHOLE = 1 << 20
"""Of a longer message only the two ends are looked at: all of it would take too long."""
_VALUE = rb'"(?:[^"\\]|\\.){0,256}"|-?[0-9]{1,19}|true|false|null'
_FIRST = re.compile(rb'\s*[{,]\s*"([^"\\]{0,64})"\s*:\s*(?:(' + _VALUE + rb")\s*(?=[,}]))?", re.DOTALL)
"""A member, and (its value) if that is short and plain."""
_LAST = re.compile(rb'(?:,\s*"[^"\\]{0,64}"\s*:\s*(?:' + _VALUE + rb")\s*){1,4}\}\s*\Z", re.DOTALL)
"""Up to four short members and the end of the object."""


class _Members(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def answered_id(message: bytes) -> int | str | None:
    """The id of what seems to be an answer; None: it is none, or that cannot be told."""
    members = _members(message)
    return None if b"method" in members else _id(members.get(b"id", b""))


def is_asking(message: bytes) -> bool:
    """Whether it seems to be a request or a notification, and so answers nothing."""
    return b"method" in _members(message)


def _members(message: bytes) -> dict[bytes, bytes]:
    """Its id and its method, as far as they are found."""
    if len(message) > _READ_WHOLE:
        return _looked_up(message)
    try:
        whole = msgspec.json.decode(message, type=_Members)
    except (ValueError, RecursionError):
        return _looked_up(message)
    return {b"id": bytes(whole.id)} | ({} if whole.method is msgspec.UNSET else {b"method": b""})


def _looked_up(message: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    head, at = message[:_LOOKED_AT], 0
    while (member := _FIRST.match(head, at)) is not None:
        found[member[1]] = member[2] or b""
        if member[2] is None:
            break
        at = member.end()
    last = _LAST.search(message[-_LOOKED_AT:])
    if last is not None and b"id" not in found:
        found |= {name: value for name, value in _FIRST.findall(last[0]) if name in (b"id", b"method")}
    return found


def _id(written: bytes) -> int | str | None:
    try:
        return msgspec.json.decode(written, type=int | str)
    except (ValueError, RecursionError):
        return None
