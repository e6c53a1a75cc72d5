"""What the tests of MCP start from."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.mcp.connected import Reach, reaching


@pytest.fixture
async def reach() -> AsyncIterator[Reach]:
    """Connections that end with the test."""
    async with reaching() as reach:
        yield reach
