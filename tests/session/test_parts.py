"""The standing parts of a session."""

from __future__ import annotations

import pytest

from tertulia.session.parts import SessionParts
from tests.session.staging import stage


async def test_no_two_sessions_share_anything_that_changes() -> None:
    """S002-03: nothing of one session is another's."""
    async with stage() as one, stage() as other:
        shared = [
            name
            for name in SessionParts.__struct_fields__
            if getattr(one.parts, name) is getattr(other.parts, name) and name not in ("began_after", "mcp", "settings")
        ]
        assert shared == []


async def test_the_parts_are_fixed() -> None:
    async with stage() as on:
        with pytest.raises(AttributeError):
            on.parts.bus = None
