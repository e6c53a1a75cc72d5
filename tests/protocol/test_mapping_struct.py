"""Data that is read by name."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.protocol.events import TokenCount
from tertulia.protocol.items import Usage
from tertulia.protocol.mapping_struct import MappingStruct


class Point(MappingStruct, frozen=True):
    """Two numbers."""

    x: int
    y: int = 2


def test_a_field_is_an_attribute_and_a_key() -> None:
    point = Point(1)
    assert (point.x, point["x"], point.get("y"), point.get("z"), point.get("z", 3)) == (1, 1, 2, None, 3)
    assert dict(point) == msgspec.to_builtins(point) == {"x": 1, "y": 2}
    assert list(point) == ["x", "y"]
    with pytest.raises(KeyError):
        point["keys"]


def test_what_lies_within_an_event_is_read_as_it_is_on_the_wire() -> None:
    """Contract: the same code reads events in Python and from a wire."""
    event = TokenCount(Usage(1, 0, 2, 0, 3), 100, "key")
    assert event["usage"]["total_tokens"] == msgspec.to_builtins(event)["usage"]["total_tokens"] == 3
