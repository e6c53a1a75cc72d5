"""The head of a session's record: how many records there are up to which, and a digest that chains them (R2).

A record that is deleted leaves no trace among the others: numbers may have gaps, because a write that failed uses them
up. So the file has one row more, which is written with every answer and when the file is closed. It holds a part for
each life of the session: its last number, how many records it has, and a digest of them and of the part before.

It detects records that a person, a script or a fault deleted or exchanged. It is no signature: a program that runs as
the same user and knows this form can write another head.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import starmap
from struct import Struct
from struct import error as StructError
from typing import Any
from zlib import crc32

import msgspec

PLACE = -2
"""The row of the head; records have numbers above 0."""
_MOST_PARTS = 64
_pack = Struct("<qI").pack
_INSERT = "INSERT OR REPLACE INTO record VALUES (?, 'head', '', 0, NULL, 0, 0, 0, NULL, ?, NULL, ?, NULL)"
_PROOFS = "SELECT n, header_crc FROM record WHERE n > ? AND n <= ? ORDER BY n"
_LAST = 2**63 - 1


class HeadPart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one process has written of the session."""

    n: int
    """The number of its last record."""
    count: int
    """How many there are, after those of the part before."""
    digest: str
    missing: int = 0
    """How many of the parts before were gone when it began; -1: the head itself was gone, or an older one."""


_decode = msgspec.json.Decoder(list[HeadPart]).decode
_encode = msgspec.json.Encoder().encode


class Head:
    """Kept by the owner of a file while it writes: adding a record costs no more than that record."""

    __slots__ = ("_count", "_hash", "_missing", "_n", "_parts", "is_behind")

    def __init__(self, parts: list[HeadPart], missing: int = 0) -> None:
        """Behind these parts, without so many of their records."""
        self._parts = parts
        self._missing = missing
        self._n = _last_n(parts)
        self._count = 0
        self._hash = _begun(parts[-1].digest if parts else "")
        self.is_behind = missing != 0
        """Whether there are records, or losses, that the row in the file does not know of."""

    @classmethod
    def of(cls, connection: sqlite3.Connection, is_old: bool = False) -> Head:
        """As the file says. `is_old`: it is known to have come farther. Raises sqlite3.Error."""
        parts = load(connection)
        if parts is None or len(parts) > _MOST_PARTS:
            # None any more, or a very long one: all that there is becomes one part.
            parts, missing = [], -1 if parts is None else count_missing(connection)
        else:
            missing = _newly_missing(connection, parts)
        head = cls(parts, missing or -is_old)
        head.add(connection.execute(_PROOFS, (head._n, _LAST)))
        return head

    def rebuilt(self, connection: sqlite3.Connection, counted: int) -> Head:
        """Records were erased, as their policy wants it: one part for all that is left. `counted` there were before."""
        parts = (*self._parts, HeadPart(self._n, self._count, "", self._missing))
        former = _sum_missing(parts)
        head = Head([], former if former < 0 else former + max(0, _known(parts) - counted))
        head.add(connection.execute(_PROOFS, (0, _LAST)))
        return head

    def add(self, links: Iterable[tuple[int, int]], *, written: bool = False) -> None:
        """These records are there, and if `written` the row says so."""
        known = [*links]
        if known:
            self._hash.update(_links(known))
            self._n = known[-1][0]
            self._count += len(known)
            self.is_behind = True
        if written:
            self.is_behind = False

    def is_in(self, connection: sqlite3.Connection) -> bool:
        """Whether the records are those that it knows: none deleted, added or exchanged. Raises sqlite3.Error."""
        hashed = _begun(self._parts[-1].digest if self._parts else "")
        for n, proof in connection.execute(_PROOFS, (_last_n(self._parts), _LAST)):
            hashed.update(_link(n, proof))
        same = hashed.digest() == self._hash.digest()
        return same and _newly_missing(connection, self._parts) <= max(0, self._missing)

    def write(self, connection: sqlite3.Connection, links: Sequence[tuple[int, int]] = ()) -> None:
        """Have the row say what there is, with these records; part of a transaction of the caller's."""
        hashed, count, n = self._hash.copy(), self._count + len(links), self._n
        if links:
            hashed.update(_links(links))
            n = links[-1][0]
        parts = [*self._parts]
        if count or self._missing:
            parts.append(HeadPart(n, count, hashed.hexdigest(), self._missing))
        header = _encode(parts)
        connection.execute(_INSERT, (PLACE, crc32(header), header))


class Proof(msgspec.Struct, frozen=True):
    """What a file's head says about its records."""

    faults: tuple[str, ...] = ()
    """Sentences: what is missing, or not what was written."""
    uncovered: int = 0
    """Records after the last that the head knows: a process died before it could say so."""


def prove(connection: sqlite3.Connection) -> Proof:
    """Compare all records of a file with its head. Raises sqlite3.Error."""
    parts = load(connection)
    if parts is None:
        return Proof(faults=("the head of the record was removed or cannot be read, so its end is not proved",))
    faults: list[str] = []
    before, digest = 0, ""
    for part in parts:
        found = connection.execute(_PROOFS, (before, part.n)).fetchall()
        hashed = _begun(digest)
        for n, proof in found:
            hashed.update(_link(n, proof))
        if part.missing:
            faults.append(_earlier(part.missing))
        if len(found) < part.count:
            faults.append(_missing([n for n, _ in found], before, part))
        elif hashed.hexdigest() != part.digest:
            faults.append(f"records {before + 1} to {part.n} are not those that were written")
        before, digest = part.n, part.digest
    rest = connection.execute("SELECT count(*) FROM record WHERE n > ?", (before,)).fetchone()[0]
    return Proof(faults=tuple(dict.fromkeys(faults)), uncovered=rest)


def count_missing(connection: sqlite3.Connection) -> int:
    """How many records are gone, now or when the session was resumed before; -1: it cannot be known."""
    parts = load(connection)
    if parts is None or (former := _sum_missing(parts)) < 0:
        return -1
    return former + _newly_missing(connection, parts)


def load(connection: sqlite3.Connection) -> list[HeadPart] | None:
    """What the row says; None where there is none that can be trusted."""
    query = f"SELECT header_crc, header FROM record WHERE n = {PLACE} AND typeof(header) = 'blob'"
    found: tuple[Any, bytes] | None = connection.execute(query).fetchone()
    if found is None or crc32(found[1]) != found[0]:
        return None
    try:
        return _decode(found[1])
    except msgspec.MsgspecError:
        return None


def blank_head() -> tuple[str, tuple[object, ...]]:
    """The statement, and its values, that puts the head of a file without records."""
    header = _encode([])
    return _INSERT, (PLACE, crc32(header), header)


def _begun(digest: str) -> Any:
    return hashlib.blake2b(digest.encode(), digest_size=16)


def _last_n(parts: Sequence[HeadPart]) -> int:
    return parts[-1].n if parts else 0


def _sum_missing(parts: Iterable[HeadPart]) -> int:
    counts = [part.missing for part in parts]
    return -1 if -1 in counts else sum(counts)


def _newly_missing(connection: sqlite3.Connection, parts: Sequence[HeadPart]) -> int:
    query = "SELECT count(*) FROM record WHERE n > 0 AND n <= ?"
    found: int = connection.execute(query, (_last_n(parts),)).fetchone()[0]
    return max(0, _known(parts) - found)


def _known(parts: Iterable[HeadPart]) -> int:
    """How many records there were; what an owner found missing is not found missing again."""
    return sum(part.count - max(0, part.missing) for part in parts)


def _link(n: int, proof: object) -> bytes:
    # A cell may hold anything; a value that is no checksum is found when the record is read.
    return _pack(n, proof & 0xFFFFFFFF if isinstance(proof, int) else 0)


def _links(known: Sequence[tuple[int, Any]]) -> bytes:
    try:
        return b"".join(starmap(_pack, known))
    except StructError:
        return b"".join([_link(n, proof) for n, proof in known])


def _earlier(missing: int) -> str:
    if missing < 0:
        return (
            "the head of the record was gone, or an older one, when the session was resumed; what was lost is not known"
        )
    return f"{_records(missing)} missing since before the session was resumed"


def _missing(found: Sequence[int], before: int, part: HeadPart) -> str:
    gone = part.count - len(found)
    last = found[-1] if found else before
    if last < part.n:
        return f"{_records(gone)} missing at the end: {part.n} was written last, and {last} is the last that is there"
    holes = [(a, b) for a, b in zip((before, *found), found, strict=False) if b - a > 1]
    places = ", ".join(f"between {a} and {b}" for a, b in holes[:5])
    return f"{_records(gone)} missing {places}"


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count:,} records are"
