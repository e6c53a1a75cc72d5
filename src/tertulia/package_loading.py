"""Loads optional packages and plug-ins when they are first needed, one at a time in the whole process.

A big package imports itself in circles. Two threads that import different parts of it at once each hold what the other
waits for; Python then hands one of them a module that is not finished, and a name that is always there is missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_import_lock = threading.RLock()


class PackageError(ImportError):
    """A package that is needed cannot be loaded. Its text says which, why, and what to do."""


def load_package(purpose: str, extra: str, *modules: str, quiet: Iterable[str] = ()) -> None:
    """Import these modules, whole, before it returns. It may take seconds the first time: call it in a thread.

    `purpose` begins the sentence that says why not: `MCP servers need`. Only a package of these modules that is not
    installed is told as a missing `extra`; anything else that goes wrong is told as what it is. `quiet` names loggers
    of the package that would write content to the log.
    """
    packages = {name.partition(".")[0] for name in modules}
    with _import_lock:
        try:
            for name in modules:
                import_module(name)
        except ModuleNotFoundError as error:
            # The whole name too: several packages may share its first part, of which one is installed.
            if error.name in packages or any(f"{name}.".startswith(f"{error.name}.") for name in modules):
                way_out = f"pip install 'tertulia[{extra}]'"
                raise PackageError(f"{purpose} the `{extra}` extra: {way_out} ({error})") from None
            raise PackageError(_broken(purpose, packages, error)) from error
        except ImportError as error:
            raise PackageError(_broken(purpose, packages, error)) from error
    for name in quiet:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)


class Plugin(NamedTuple):
    """What an installed package offers under one name of an entry point group. Nothing of it is imported yet."""

    name: str
    origin: str
    """For people: the package, the group and what it names there."""
    load: Callable[[], object]
    """Imports it; PackageError says whose it is and what went wrong."""


class PluginRegistry:
    """The plug-ins of one kind. Installed packages are looked through when a name is first asked for, never before."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._plugins: dict[str, Plugin] | None = None

    def names(self) -> list[str]:
        """The names that installed packages offer, sorted."""
        return sorted(self._all())

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    def plugins(self) -> list[Plugin]:
        """All of them, by name."""
        return [self._all()[name] for name in self.names()]

    def load(self, name: str) -> object:
        """What the entry point names; PackageError where there is none, it cannot be loaded, or two claim the name."""
        plugin = self._all().get(name)
        if plugin is None:
            there = ", ".join(self.names()) or "none"
            raise PackageError(f"no installed package has {name[:64]!r} among its {self.group}; there is {there}")
        return plugin.load()

    def _all(self) -> dict[str, Plugin]:
        if self._plugins is None:
            # Imported here: it costs more than all else that a session's start imports of the standard library.
            from importlib.metadata import entry_points

            self._plugins = {}
            for entry in sorted(entry_points(group=self.group), key=lambda entry: (entry.name, entry.value)):
                other, plugin = self._plugins.get(entry.name), _plugin(entry)
                self._plugins[entry.name] = plugin if other is None else _claimed_twice(other, plugin)
        return self._plugins


def _plugin(entry: EntryPoint) -> Plugin:
    package = "an unnamed package" if entry.dist is None else f"package {entry.dist.name}"
    origin = f"{entry.name!r} of {package} ({entry.group}: {entry.value})"

    def load() -> object:
        with _import_lock:
            try:
                return entry.load()
            # A module of another package runs here: whatever it raises is told as its failure and stops nothing else.
            except Exception as error:
                raise PackageError(f"plug-in {origin} cannot be loaded: {type(error).__name__}: {error}") from error

    return Plugin(entry.name, origin, load)


def _claimed_twice(one: Plugin, other: Plugin) -> Plugin:
    def refuse() -> object:
        raise PackageError(f"two plug-ins claim one name: {one.origin} and {other.origin}; uninstall one of them")

    return Plugin(one.name, one.origin, refuse)


def _broken(purpose: str, packages: set[str], error: ImportError) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(packages))
    return f"{purpose} {names}, which is installed and cannot be loaded: {error}"
