"""Ids of what was closed, so that `closed` and `not_found` stay different answers. The oldest are forgotten."""

from __future__ import annotations

_KEPT = 100_000


class Tombstones:
    """The last hundred thousand closed ids."""

    __slots__ = ("_ids", "_kept")

    def __init__(self, kept: int = _KEPT) -> None:
        self._ids: dict[str, None] = {}
        self._kept = kept

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def add(self, id: str) -> None:
        """Remember one."""
        self._ids[id] = None
        if len(self._ids) > self._kept:
            del self._ids[next(iter(self._ids))]
