"""Storage policies: how much of a conversation may be stored.

They are totally ordered, strictest first: none < headers_only < ttl (shorter < longer) < full.
On the wire: "full", "headers_only", "none", {"ttl": seconds}.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Literal, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import word_hint


class Full(msgspec.Struct, frozen=True, gc=False, tag="full"):
    """Everything is stored and can be replayed."""


class HeadersOnly(msgspec.Struct, frozen=True, gc=False, tag="headers_only"):
    """Times, tool names, counts and digests are stored, never a text."""


class NoStorage(msgspec.Struct, frozen=True, gc=False, tag="none"):
    """Only the fact that something started, ended or failed is stored."""


class Ttl(msgspec.Struct, frozen=True, gc=False, tag="ttl"):
    """Like `full`, but each text is removed once it is `seconds` old."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise InvalidParamsError(f"storage_policy ttl must be a positive number of seconds, not {self.seconds}")


StoragePolicy = Full | HeadersOnly | NoStorage | Ttl
StorageName = Literal["full", "headers_only", "headers-only", "none"]
"""The names of policies as people write them; `ttl` is not among them, because it needs a number."""
WireStorage = str | dict[str, float]


def strictness(policy: StoragePolicy) -> tuple[int, float]:
    """A sort key: the smaller key belongs to the stricter policy."""
    match policy:
        case NoStorage():
            return (0, 0.0)
        case HeadersOnly():
            return (1, 0.0)
        case Ttl(seconds):
            return (2, seconds)
        case Full():
            return (3, 0.0)


def strictest(*policies: StoragePolicy) -> StoragePolicy:
    """The strictest of these policies; it applies to a record that is made of several sources."""
    return min(policies, key=strictness)


def binding_policy(earlier: StoragePolicy | None, before: StoragePolicy, after: StoragePolicy) -> StoragePolicy | None:
    """The policy that still binds older items after the policy changed from `before` to `after`; None if there is none.

    `earlier`: the policy that bound older items until then.
    """
    return strictest(before, earlier or before) if strictness(after) > strictness(before) else earlier


def storage_to_wire(policy: StoragePolicy) -> WireStorage:
    """The spelling that clients and configuration files use."""
    match policy:
        case Full():
            return "full"
        case HeadersOnly():
            return "headers_only"
        case NoStorage():
            return "none"
        case Ttl(seconds):
            return {"ttl": seconds}


def storage_from_wire(value: object) -> StoragePolicy:
    """Parse any accepted spelling: also `headers-only` and `headersonly`, and `ttl:SECONDS` for command lines."""
    if isinstance(value, Full | HeadersOnly | NoStorage | Ttl):
        return value
    if isinstance(value, str):
        return _from_word(value)
    seconds = _seconds(value)
    if seconds is not None:
        with suppress(OverflowError):
            return Ttl(float(seconds))
    raise InvalidParamsError(_EXPECTED.format(value))


def _seconds(value: object) -> float | None:
    table = cast("dict[object, object]", value) if isinstance(value, dict) else {}
    seconds = table.get("ttl")
    is_number = len(table) == 1 and isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return cast(float, seconds) if is_number else None


_EXPECTED = 'storage_policy must be "full", "headers_only", "none" or {{"ttl": seconds}}, not {!r}'


def _from_word(word: str) -> StoragePolicy:
    name, *rest = word.split(":")
    match [name.replace("-", "_").lower(), *rest]:
        case ["full"]:
            return Full()
        case ["headers_only" | "headersonly"]:
            return HeadersOnly()
        case ["none"]:
            return NoStorage()
        case ["ttl", seconds]:
            try:
                return Ttl(float(seconds))
            except ValueError:
                pass
        case _:
            pass
    raise InvalidParamsError(_EXPECTED.format(word[:80]) + word_hint(name, ("full", "headers_only", "none", "ttl")))
