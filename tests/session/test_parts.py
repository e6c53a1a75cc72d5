"""The standing parts of a session."""

from __future__ import annotations

from functools import cached_property

import pytest

from tertulia.session.parts import SessionParts
from tests.session.staging import stage

UNCHANGING = ("settings", "make", "starts_agent_servers", "epoch", "began_after")


def part_names() -> list[str]:
    """All that a session has, made or not."""
    made_on_use = [name for name, value in vars(SessionParts).items() if isinstance(value, cached_property)]
    return [*SessionParts.__struct_fields__, *made_on_use]


async def test_no_two_sessions_share_anything_that_changes() -> None:
    """S002-03: nothing of one session is another's."""
    async with stage() as one, stage() as other:
        shared = [
            name
            for name in part_names()
            if getattr(one.parts, name) is getattr(other.parts, name) is not None and name not in UNCHANGING
        ]
        assert shared == []


async def test_the_parts_are_fixed() -> None:
    async with stage() as on:
        with pytest.raises(AttributeError):
            on.parts.bus = None
