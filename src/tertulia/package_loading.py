"""Loads optional packages when they are first needed, one at a time in the whole process, whichever thread asks.

A big package imports itself in circles. Two threads that import different parts of it at once each hold what the other
waits for; Python then hands one of them a module that is not finished, and a name that is always there is missing.
"""

from __future__ import annotations

import threading
from importlib import import_module

_import_lock = threading.RLock()


class PackageError(ImportError):
    """A package that is needed cannot be loaded. Its text says which, why, and what to do."""


def load_package(purpose: str, extra: str, *modules: str) -> None:
    """Import these modules, whole, before it returns. It may take seconds the first time: call it in a thread.

    `purpose` begins the sentence that says why not: `MCP servers need`. Only a package of these modules that is not
    installed is told as a missing `extra`; anything else that goes wrong is told as what it is.
    """
    packages = {name.partition(".")[0] for name in modules}
    with _import_lock:
        try:
            for name in modules:
                import_module(name)
        except ModuleNotFoundError as error:
            if error.name in packages:
                way_out = f"pip install 'tertulia[{extra}]'"
                raise PackageError(f"{purpose} the `{extra}` extra: {way_out} ({error})") from None
            raise PackageError(_broken(purpose, packages, error)) from error
        except ImportError as error:
            raise PackageError(_broken(purpose, packages, error)) from error


def _broken(purpose: str, packages: set[str], error: ImportError) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(packages))
    return f"{purpose} {names}, which is installed and cannot be loaded: {error}"
