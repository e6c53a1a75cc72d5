"""Repairs JSON of servers where a fault in one part would cost the whole answer.

It invents nothing: what cannot be read becomes U+FFFD or null. Of a response that cannot be repaired it finds the
request id, so that the caller gets an error and not a timeout. For that it decodes nothing: it looks at the beginning
and the end of the message, where servers write the id, and else goes from member to member as far as they can be
followed. A message without an id there is dropped like any other text, and all calls go on waiting, each within its own
time limit.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from time import thread_time
from typing import Any, cast

import msgspec

from tertulia.mcp.client.tool_listing import mark_invalid_tools
from tertulia.mcp.server_connection import MODERN
from tertulia.protocol.json_steps import Steps, StepwiseWork, read, run_to_end

MAX_BLOCKS = 4096
"""Content blocks of one result."""
MAX_REPAIRED = 1 << 20
"""Repairing a longer text would take too long."""
MAX_DEPTH = 500
"""Levels of one message: as deep as the SDK can encode, so that one deep tool does not cost the whole list."""
_LOST = rb"\ufffd"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
"""An escaped character: a surrogate pair, (a lone surrogate), or any other."""
_ODD_NUMBER = re.compile(rb"NaN|Infinity|[0-9]{19}|[eE]\+?[0-9]{3}")
_LONGEST_WHOLE = 18
MAX_CPU_S = 1.0
"""CPU time for finding the id in one message. The id stands among few members, and long ones are skipped quickly."""
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
_STEPS = {**dict.fromkeys(b"{[", 1), **dict.fromkeys(b"}]", -1)}


def repair_text(line: bytes) -> bytes:
    """JSON in which every lone surrogate, and every byte that is not UTF-8, is U+FFFD."""
    return _ESCAPE.sub(lambda match: _LOST if match[1] else match[0], line.decode("utf-8", "replace").encode())


def repair_if_needed(text: bytes) -> bytes:
    """The same text, repaired if it needs it and is not too long."""
    if len(text) > MAX_REPAIRED:
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return repair_text(text)
    return repair_text(text) if _HALF.search(text) else text


def decode_odd_numbers(line: bytes) -> Any:
    """JSON with numbers that are not finite or too large, as null. ValueError where there are no such numbers."""
    if not _ODD_NUMBER.search(line):
        raise ValueError("its numbers are not what is wrong with it")
    return json.loads(line, parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)


async def read_leniently(text: bytes) -> Any:
    """Decode a text of any length with all of these repairs but that of bytes. ParseError for what is no JSON.

    The loop is never held up for long.
    """
    return await run_to_end(StepwiseWork(read(text, _lenient, MAX_DEPTH, _whole_characters)))


def repair_result(result: dict[str, Any], version: str) -> None:
    """Repair, in place, what the SDK would refuse or take too long over. `version`: empty before it is known."""
    if version >= MODERN:
        # A result that does not say whether it is complete, is.
        result.setdefault("resultType", "complete")
    if "structuredContent" in result:
        result.setdefault("content", [])
    content = result.get("content")
    if isinstance(content, list) and len(blocks := cast("list[Any]", content)) > MAX_BLOCKS:
        left = f"[{len(blocks) - MAX_BLOCKS:,} more pieces were left out]"
        result["content"] = [*blocks[:MAX_BLOCKS], {"type": "text", "text": left}]
    if version and "tools" in result:
        if version >= MODERN:
            # The same for how long it holds, and whether it may be shared.
            result.setdefault("ttlMs", 0)
            result.setdefault("cacheScope", "private")
        mark_invalid_tools(result, version)


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _whole(text: str) -> int | float | None:
    return int(text) if len(text) <= _LONGEST_WHOLE else _finite(text)


def _whole_characters(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_lenient = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)


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
