"""The table `masks`: more paths that commands see as empty, and usual ones that they may see."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping
from typing import Any

from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import check_text
from tertulia.protocol.name_hints import name_hint


def parse_masks(
    name: str, table: Mapping[str, Any], strings: Callable[[str, object], tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The paths under each key; InvalidParams names a key or a path that cannot be used. `strings` reads a list."""
    unknown = sorted(table.keys() - {"add", "unmask"})
    if unknown:
        raise InvalidParamsError(
            f"{name}: there is no setting {unknown[0][:64]!r}; {name_hint(unknown[0], ('add', 'unmask'))}"
        )
    lists = {key: strings(f"{name}.{key}", value) for key, value in table.items()}
    return {key: tuple(_mask_path(f"{name}.{key}", path) for path in paths) for key, paths in lists.items()}


def _mask_path(name: str, path: str) -> str:
    check_text(path, name)
    if not (path.startswith(("/", "~/"))) or "\0" in path:
        raise InvalidParamsError(f"{name}: {path!r:.200} must begin with / or ~/")
    if os.path.normpath(path) in ("/", "//", "~"):
        raise InvalidParamsError(f"{name}: {path!r:.200} is more than a mask can cover; name what lies in it")
    return path
