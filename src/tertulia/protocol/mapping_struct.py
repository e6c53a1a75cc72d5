"""Frozen structs whose fields can be read as attributes and as keys, so that code for wire dicts reads them too."""

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
        """The names of the fields, as `dict.keys`, so that `dict(data)` has the fields of the wire.

        Returns:
            The names, in the order of the wire.
        """
        return self.__struct_fields__

    def get(self, key: str, default: Any = None) -> Any:
        """A field by its name, as `dict.get`.

        Args:
            key: The name.
            default: The value to return where there is no such field.

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
    """True for events that a slow subscriber gets even if it misses others."""
    of_persons: ClassVar[bool] = False
    """True for messages and decisions of persons: no tool may publish them."""

    @property
    def data(self) -> Self:
        """The payload itself, so that code can read `.data` of a bare payload as of an event."""
        return self
