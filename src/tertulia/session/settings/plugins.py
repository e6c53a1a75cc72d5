"""What installed packages add to a session by entry point: model wires, tools and executors.

Each is loaded when its name is first asked for: a wire by a model, a tool by the user's settings, an executor by a
conversation's backend. Not context providers: `context.injector` finds those.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import cast

from tertulia.errors import InvalidParamsError
from tertulia.executors.executor import Executor
from tertulia.models.wire import Wire
from tertulia.package_loading import PackageError, PluginRegistry
from tertulia.tools.function import as_tool
from tertulia.tools.tool import Tool

EXECUTOR_PREFIX = "plugin:"
"""Before an executor's name in `backend`."""

_wires = PluginRegistry("tertulia.wires")
_tools = PluginRegistry("tertulia.tools")
_executors = PluginRegistry("tertulia.executors")


def plugin_wire(provider: str, model: str, variables: Mapping[str, str]) -> Wire | None:
    """The wire of `provider/model`, made by `factory(model, variables)`; None where no package has that provider.

    Raises InvalidParams for a plug-in that cannot be loaded or makes something else.
    """
    if provider not in _wires:
        return None
    wire = cast("Wire", _called(_wires, provider, model, variables))
    if not callable(getattr(wire, "stream", None)):
        raise InvalidParamsError(f"plug-in {provider!r} of {_wires.group} did not make a Wire: {type(wire).__name__}")
    return wire


def plugin_tool(name: str) -> Tool:
    """The tool that a package has under this name: a tool, a typed function, or a class that makes one."""
    loaded = _loaded(_tools, name)
    return as_tool(loaded() if inspect.isclass(loaded) else loaded)


def plugin_executor(backend: str) -> Executor:
    """The executor of `plugin:NAME`, made without arguments."""
    name = backend.removeprefix(EXECUTOR_PREFIX)
    executor = cast("Executor", _called(_executors, name))
    if not callable(getattr(executor, "run", None)):
        raise InvalidParamsError(f"plug-in {name!r} of {_executors.group} did not make an executor")
    return executor


def _loaded(registry: PluginRegistry, name: str) -> object:
    try:
        return registry.load(name)
    except PackageError as error:
        raise InvalidParamsError(str(error)) from None


def _called(registry: PluginRegistry, name: str, *arguments: object) -> object:
    factory = _loaded(registry, name)
    if not callable(factory):
        raise InvalidParamsError(f"plug-in {name!r} of {registry.group} must be a function or class that makes one")
    return factory(*arguments)
