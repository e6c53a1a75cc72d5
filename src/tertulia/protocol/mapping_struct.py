"""Frozen data whose fields are attributes and keys: the same code reads it in Python and from a wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import msgspec


class MappingStruct(msgspec.Struct, frozen=True, gc=False):
    """A struct whose fields can be read as items: `data["text"]` is `data.text`."""

    def __getitem__(self, key: str) -> Any:
        if key not in self.__struct_fields__:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_fields__)

    def keys(self) -> tuple[str, ...]:
        """The names of the fields, as `dict.keys`: `dict(data)` is what stands on the wire.

        Returns:
            The names, in the order of the wire.
        """
        return self.__struct_fields__

    def get(self, key: str, default: Any = None) -> Any:
        """A field by its name, as `dict.get`.

        Args:
            key: The name.
            default: What is returned where there is no such field.

        Returns:
            The value of the field, or `default`.
        """
        return self[key] if key in self.__struct_fields__ else default


class BaseEventData(MappingStruct, frozen=True, gc=False):
    """The payload of an event. `type` is its name on every surface."""

    type: ClassVar[str]
    durable: ClassVar[bool] = True
    """False for deltas and progress: never numbered, never stored, first to be dropped."""
    terminal: ClassVar[bool] = False
    """True for what a slow subscriber must get whatever else it misses."""
    of_persons: ClassVar[bool] = False
    """True for what persons say or decide: no tool may publish it."""

    @property
    def data(self) -> Self:
        """The payload itself, so that a payload alone is read like one in its envelope."""
        return self
