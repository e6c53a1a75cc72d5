"""The registered tools, by name, in the order in which models see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

import msgspec

from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError, ToolConflictError
from tertulia.protocol.tool_spec import ToolSpec, canonical_name, is_legal
from tertulia.schema.schema import Schema
from tertulia.tools.tool import Tool

# By text and for the whole process: a thousand conversations see the same tools. A refused schema is not cached; it is
# refused again.
_compiled = lru_cache(maxsize=256)(Schema.compile)


class ToolLookup(Protocol):
    """Where a call finds its tool."""

    def get(self, name: str) -> Tool | None:
        """The tool of that name; dotted names of conversation tools are aliases."""
        ...

    def schema(self, spec: ToolSpec) -> Schema:
        """The compiled schema of a definition; InvalidParams when its author made one that cannot be used."""
        ...

    def absence(self, name: str) -> TertuliaError:
        """Why a call of a tool that is not offered is refused."""
        ...


class DeferredTool(msgspec.Struct, frozen=True):
    """A tool whose definition is known and that is made when it is first called."""

    spec: ToolSpec
    make: Callable[[], Tool]


class ToolRegistry:
    """Tools under distinct names. `revision` changes exactly when the tools do."""

    __slots__ = ("_specs", "_tools", "revision")

    def __init__(self, tools: Iterable[Tool | DeferredTool] = ()) -> None:
        """Add the tools one by one."""
        self._tools: dict[str, Tool | DeferredTool] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self.revision = 0
        for tool in tools:
            self.add(tool)

    def __contains__(self, name: str) -> bool:
        return canonical_name(name) in self._tools

    def add(self, tool: Tool | DeferredTool) -> None:
        """Put it at the end. The first of two with one signature stays; two that differ are a ToolConflict."""
        spec = tool.spec
        if not is_legal(spec.name):
            raise InvalidParamsError(f"tool name {spec.name[:80]!r} must match ^[a-zA-Z0-9_-]{{1,64}}$")
        present = self._tools.get(spec.name)
        if present is None:
            self._tools[spec.name] = tool
            self._changed()
        elif present.spec.signature != spec.signature or (spec.source == "function" and present is not tool):
            # Two functions may look the same to a model and do different things.
            raise ToolConflictError(
                f"two different tools are called {spec.name!r}: one of {_origin(present.spec)}, one of {_origin(spec)}",
                tool=spec.name,
            )

    def remove(self, name: str) -> bool:
        """Remove the tool of that name; returns whether there was one."""
        if self._tools.pop(canonical_name(name), None) is None:
            return False
        self._changed()
        return True

    def get(self, name: str) -> Tool | None:
        """The tool of that name; dotted names of conversation tools are aliases."""
        name = canonical_name(name)
        tool = self._tools.get(name)
        if isinstance(tool, DeferredTool):
            tool = self._tools[name] = tool.make()
        return tool

    def specs(self) -> tuple[ToolSpec, ...]:
        """All definitions, in the order of registration; the same object while nothing changes."""
        if self._specs is None:
            self._specs = tuple(tool.spec for tool in self._tools.values())
        return self._specs

    def schema(self, spec: ToolSpec) -> Schema:
        """The compiled schema of what a tool takes; InvalidParams when its author made one that cannot be used."""
        return _compiled(spec.accepts or spec.schema)

    def absence(self, name: str) -> TertuliaError:
        """There is no such tool, as far as is known here."""
        return NotFoundError(f"there is no tool {name[:80]!r} here")

    def _changed(self) -> None:
        self.revision += 1
        self._specs = None


def _origin(spec: ToolSpec) -> str:
    return f"the server {spec.server!r}" if spec.server else f"the {spec.source} tools"
