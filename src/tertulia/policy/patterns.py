"""What an entry of an allowlist stands for: a tool or all of a server, a directory and all below it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import Covering

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
