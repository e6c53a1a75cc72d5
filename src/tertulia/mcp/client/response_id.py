"""Finds the request id in a response that cannot be decoded, so that its caller gets an error and not a timeout.

It decodes nothing: it looks at the beginning and the end of the message, where servers write the id, and else goes from
member to member as far as they can be followed. A message without an id there is dropped like any other text, and all
calls go on waiting, each within its own time limit.
"""

from __future__ import annotations

import re
from itertools import accumulate
from time import thread_time

import msgspec

from tertulia.protocol.json_steps import Steps, StepwiseWork, run_to_end

UNREADABLE = -32700
"""The code of the error in place of such a response: JSON-RPC's own for a parse error."""
UNREADABLE_PREFIX = "Unreadable: "
"""How the message of that error begins."""
MAX_CPU_S = 1.0
"""CPU time for one message. The id stands among few members, and long ones are skipped quickly."""

_LOOKED_AT = 1024
_PIECE = 16 * 1024
_OFTEN = 256
_VALUE = rb'"(?:[^"\\]|\\.){0,256}"|-?[0-9]{1,19}|true|false|null'
_FIRST = re.compile(rb'\s*[{,]\s*"((?:[^"\\]|\\.){0,256})"\s*:\s*(?:(' + _VALUE + rb")\s*(?=[,}]))?", re.DOTALL)
"""A member, and (its value) if that is short and plain."""
_LAST = re.compile(rb'(?:,\s*"[^"\\]{0,64}"\s*:\s*(?:' + _VALUE + rb")\s*){1,4}\}\s*\Z", re.DOTALL)
"""Up to four short members and the end of the object."""
_MARK = re.compile(rb'["{}\[\],]')
_NO_BRACKETS = bytes(set(range(256)) - set(b"{[}]"))
_STEPS = [(byte in b"{[") - (byte in b"}]") for byte in range(256)]


def find_response_id(message: bytes) -> int | str | None:
    """The id of what seems to be a response; None where there is none. For a short message."""
    work = StepwiseWork(_members(message))
    while not work.step():
        pass
    return _answered(work.value)


async def answered_id_in_steps(message: bytes) -> int | str | None:
    """The same for a message of any length; the loop is never held up for long."""
    return _answered(await run_to_end(StepwiseWork(_members(message))))


async def looks_like_request(message: bytes) -> bool:
    """Whether it seems to be a request or a notification, and no response. Of any length."""
    return b"method" in await run_to_end(StepwiseWork(_members(message)))


def _answered(members: dict[bytes, bytes]) -> int | str | None:
    return None if b"method" in members else _id(members.get(b"id", b""))


def _members(message: bytes) -> Steps[dict[bytes, bytes]]:
    """The id and the method as they are written, where they are seen."""
    members = _first(message[:_LOOKED_AT]) or _last(message[-_LOOKED_AT:])
    return members or (yield from _followed(message))


def _first(head: bytes) -> dict[bytes, bytes]:
    """From the members before the first long one."""
    members: dict[bytes, bytes] = {}
    at: int | None = 0
    while at is not None and (member := _FIRST.match(head, at)) is not None:
        _note(members, member)
        at = None if member[2] is None else member.end()
    return members


def _last(tail: bytes) -> dict[bytes, bytes]:
    """From the short members at the end."""
    members: dict[bytes, bytes] = {}
    last = _LAST.search(tail)
    for member in () if last is None else _FIRST.finditer(last[0]):
        _note(members, member)
    return members


def _followed(message: bytes) -> Steps[dict[bytes, bytes]]:
    """From all members, as long as the text is an object and for `MAX_CPU_S` at most."""
    members: dict[bytes, bytes] = {}
    until, count, at = thread_time() + MAX_CPU_S, 0, 0
    while thread_time() < until and (member := _FIRST.match(message, at)) is not None:
        count += 1
        if count % _OFTEN == 0:
            yield
        _note(members, member)
        at = member.end() if member[2] is not None else (yield from _past(message, member.end(), until))
    return members


def _note(members: dict[bytes, bytes], member: re.Match[bytes]) -> None:
    if member[1] in (b"id", b"method"):
        members[member[1]] = member[2] or b""


def _past(message: bytes, at: int, until: float) -> Steps[int]:
    """The end of the value that begins at `at`: the next comma, or the end of its object."""
    level, in_string = 0, False
    if message[at : at + 1] in (b"{", b"["):
        at, level = at + 1, 1
    while at < len(message) and thread_time() < until:
        piece = message[at : at + _PIECE]
        # Without escapes but of the same length, so that positions agree.
        bare = piece.replace(b"\\\\", b"..").replace(b'\\"', b"..")
        if bare.endswith(b"\\") and len(bare) > 1:
            # Half of an escape is read with its other half.
            bare = bare[:-1]
        between = bare.split(b'"')
        marks = b"".join(between[1::2] if in_string else between[::2]).translate(None, _NO_BRACKETS)
        if min(accumulate(map(_STEPS.__getitem__, marks), initial=level)) > 0:
            # It does not end here.
            level += sum(map(_STEPS.__getitem__, marks))
            in_string ^= len(between) % 2 == 0
        else:
            end, level, in_string = _ended(bare, level, in_string)
            if end is not None:
                return at + end
        at += len(bare)
        yield
    return at


def _ended(bare: bytes, level: int, in_string: bool) -> tuple[int | None, int, bool]:
    """The end in this piece, or None with the state at its end."""
    at = 0
    while True:
        if in_string:
            at = bare.find(b'"', at) + 1
            if at == 0:
                return None, level, True
            in_string = False
        mark = _MARK.search(bare, at)
        if mark is None:
            return None, level, False
        at = mark.end()
        sign = mark[0]
        if sign == b'"':
            in_string = True
        elif level == 0 and sign in b",}]":
            return mark.start(), 0, False
        elif sign != b",":
            level += 1 if sign in b"{[" else -1


def _id(text: bytes) -> int | str | None:
    try:
        return msgspec.json.decode(text, type=int | str)
    except (ValueError, RecursionError):
        return None
