"""The request for the mount helper: a flat list of what is mounted where, from which it makes a tree.

Standard library only: both sides of the helper know it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev/shm")
"""Empty and private in every sandbox: sockets, pipes and half-written files of others."""
STAGING = "dev/.tertulia"
"""Where bubblewrap puts aside what is mounted elsewhere later; a directory that only this sandbox has."""
PROXY_PORT = 3128
"""Of a listener on the loopback of the sandbox's own network namespace, in which no other program is yet."""

Kind = Literal["read_only", "masked", "pinned", "seen"]
"""`read_only`: with all below. `masked`: empty. `pinned`: as it is, but it can be neither renamed nor removed.
`seen`: a mount of bubblewrap's that is moved here."""

_STRICTER: dict[Kind, int] = {"seen": 0, "pinned": 1, "read_only": 2, "masked": 3}


class MountEntry(NamedTuple):
    """One place, and what is mounted on it."""

    path: str
    """Absolute, and without links: in it as seen from inside."""
    kind: Kind
    device: int
    inode: int
    """What stands there as seen from outside. Anything else, and nothing is mounted."""
    staged: int | None = None
    """The number under which bubblewrap has mounted it aside."""

    def merged(self, other: MountEntry) -> MountEntry:
        """Of two entries for one place the stricter counts; where it lies aside is kept."""
        strict, mild = (self, other) if _STRICTER[self.kind] >= _STRICTER[other.kind] else (other, self)
        return strict._replace(staged=mild.staged if strict.staged is None else strict.staged)


class MountNode:
    """A place, and the places in it."""

    __slots__ = ("below", "destination", "entry", "inner", "is_private", "name")

    def __init__(self, entry: MountEntry, name: str) -> None:
        self.entry = entry
        self.name = name
        """Its path from the node above."""
        self.below: list[MountNode] = []
        self.destination = -1
        """Open on the place that is mounted on."""
        self.inner = -1
        """Open on what is seen there afterwards."""
        self.is_private = False
        """Only a mount point is there, and no file of the user."""

    @property
    def leads_to_staged(self) -> bool:
        """Whether it, or something in it, lies aside."""
        return self.entry.staged is not None or any(node.leads_to_staged for node in self.below)


def encode_entries(entries: Iterable[MountEntry], private: Iterable[str]) -> bytes:
    """As the helper reads it; `private` are the places where it may make mount points."""
    return json.dumps({"private": [*private], "entries": [*entries]}).encode()


def decode_entries(text: bytes) -> tuple[frozenset[str], list[MountEntry]]:
    """The private places, and the entries."""
    plan = json.loads(text)
    return frozenset(plan["private"]), [MountEntry(*fields) for fields in plan["entries"]]


def build_tree(entries: Iterable[MountEntry]) -> MountNode:
    """The root of the file system, with each entry below the nearest one that it lies in."""
    top = MountNode(MountEntry("/", "seen", 0, 0), "")
    stack = [top]
    for entry in _in_order(entries):
        while not entry.path.startswith(f"{stack[-1].entry.path.rstrip('/')}/"):
            stack.pop()
        above = stack[-1].entry.path.rstrip("/")
        node = MountNode(entry, entry.path.removeprefix(f"{above}/"))
        stack[-1].below.append(node)
        stack.append(node)
    return top


def _in_order(entries: Iterable[MountEntry]) -> Iterator[MountEntry]:
    """Parents first, each place once."""
    merged: dict[str, MountEntry] = {}
    for entry in entries:
        known = merged.get(entry.path)
        merged[entry.path] = entry if known is None else known.merged(entry)
    return iter(sorted(merged.values(), key=lambda entry: entry.path.split("/")))
