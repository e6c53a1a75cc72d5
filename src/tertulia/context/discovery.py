"""Providers of other packages, found by the entry point `tertulia.providers`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tertulia.providers"


def installed_providers() -> list[tuple[str, Callable[[], object]]]:
    """(where it comes from, what loads and makes it), by name; for `SessionContextInjector.register_each`.

    Nothing is imported yet. An entry point names a provider, or a class or function that makes one without arguments.
    """
    # Imported here: it costs more than all else that a session's start imports of the standard library.
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return [(f"entry point {entry.name!r} ({entry.value})", partial(_load, entry)) for entry in found]


def _load(entry: EntryPoint) -> object:
    loaded: object = entry.load()
    return loaded() if isinstance(loaded, type) or inspect.isroutine(loaded) else loaded
