"""What "stricter" means for one kind of value: the few orders that all rights are made of.

Each order is a meet-semilattice: `meet` gives the greatest value that neither side forbids, and returns one
of its arguments itself where that is the answer. "Not above" needs no method of its own: a <= b exactly when
meet(a, b) == a.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.conversation_fields import SANDBOX_MODES

T = TypeVar("T")
C = TypeVar("C", bound=Collection[str])
S = TypeVar("S", bound=msgspec.Struct)
Number = TypeVar("Number", int, float)


class Order(Protocol[T]):
    """Associative, commutative, idempotent; the result is never above either argument."""

    def meet(self, a: T, b: T) -> T:
        """The greatest value that is not above either."""
        ...


class TotalOrder(Generic[T]):
    """Any two values can be compared; `rank` gives the stricter one the smaller key."""

    __slots__ = ("_rank",)

    def __init__(self, rank: Callable[[T], Any]) -> None:
        self._rank = rank

    def meet(self, a: T, b: T) -> T:
        """The stricter of the two."""
        return min(a, b, key=self._rank)


class Conjunction:
    """A switch is on when both sides have it on."""

    __slots__ = ()

    def meet(self, a: bool, b: bool) -> bool:
        """On where both sides have it on."""
        return a and b


class Minimum:
    """A number that bounds something; None bounds nothing."""

    __slots__ = ()

    def meet(self, a: Number | None, b: Number | None) -> Number | None:
        """The smaller bound of the two."""
        if a is None or b is None:
            return b if a is None else a
        return min(a, b)


class Covering(Generic[C]):
    """Sets of patterns in which one pattern may stand for many things; None stands for everything.

    `above` yields a pattern itself and every pattern that covers it. A set in normal form holds no pattern
    that another one of it covers, so two sets that allow the same things are equal.
    """

    __slots__ = ("_above", "_collect")

    def __init__(self, above: Callable[[str], Iterator[str]], collect: Callable[[Iterable[str]], C]) -> None:
        self._above = above
        self._collect = collect

    def admits(self, patterns: C | None, name: str) -> bool:
        """Whether one of the patterns is, or covers, this name."""
        return patterns is None or any(pattern in patterns for pattern in self._above(name))

    def normal(self, patterns: Iterable[str]) -> C:
        """The set, with each of its members once."""
        unique = frozenset(patterns)
        return self._collect(x for x in unique if not any(y != x and y in unique for y in self._above(x)))

    def meet(self, a: C | None, b: C | None) -> C | None:
        """The patterns of either side that the other one covers; of normal forms it is a normal form."""
        if a is None or b is None:
            return b if a is None else a
        common = self._collect({x for x in a if self.admits(b, x)} | {y for y in b if self.admits(a, y)})
        return next((side for side in (a, b) if side == common), common)


class Product(Generic[S]):
    """A struct whose every field has an order of its own; it is stricter when each field is."""

    __slots__ = ("_meets", "_struct")

    def __init__(self, struct: type[S], orders: Mapping[str, Order[Any]]) -> None:
        if set(orders) != set(struct.__struct_fields__):
            raise TypeError(f"each field of {struct.__name__} needs its order, and nothing else has one")
        self._struct = struct
        self._meets = tuple(orders[field].meet for field in struct.__struct_fields__)

    def meet(self, a: S, b: S) -> S:
        """Field by field; makes a new struct only when neither side is the answer."""
        if a is b:
            return a
        left, right = msgspec.structs.astuple(a), msgspec.structs.astuple(b)
        # Called for every tool call: most fields of two rights are one object, which is its own meet.
        met = tuple([x if x is y else meet(x, y) for meet, x, y in zip(self._meets, left, right, strict=True)])
        if met == left:
            return a
        if met == right:
            return b
        return self._struct(**dict(zip(self._struct.__struct_fields__, met, strict=True)))


_CUT = re.compile(r"[0-9a-f]{40}\Z")
"""How a name ends that was changed or cut to be legal; its server may have been cut off with the rest."""


def _tool_and_above(name: str) -> Iterator[str]:
    yield name
    at = name.find("__")
    if at >= 0 and name.rfind("__") == at and _CUT.search(name) is None:
        yield f"{name[:at]}__*"


def _path_and_above(path: str) -> Iterator[str]:
    yield path
    yield from map(str, PurePosixPath(path).parents)


def _in_order(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths))


SANDBOX_ORDER = TotalOrder(SANDBOX_MODES.index)

TOOL_NAMES = Covering(_tool_and_above, frozenset[str])
"""MCP tools: `server__tool`, or `server__*` for all tools of a server.

A name is covered only where it tells its server beyond doubt. `a__b__c` may belong to `a` or to `a__b`, and the
meet, which sees names only, must not admit what one side does not: it leaves such a name out.
"""

ROOTS = Covering(_path_and_above, _in_order)
"""Absolute directories, each with all that is below it."""


def normal_roots(paths: Iterable[str]) -> tuple[str, ...]:
    """Absolute paths in normal form; `/a/../etc` must not pass for something below `/a`."""
    return ROOTS.normal(map(_absolute, paths))


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise InvalidParamsError(f"writable_roots must be absolute paths, not {path!r}")
    # Exactly two leading slashes survive normpath, as POSIX allows; three never do.
    return posixpath.normpath(f"//{path}")
