"""The end of a connection: asked for twice if need be, and never waited for without a bound."""

from __future__ import annotations

import asyncio
import logging

from tertulia.errors import McpError
from tertulia.mcp.server import Connection

TRIES_S = (6.0, 1.5)
"""Together less than what a pool has for closing all of them."""

_log = logging.getLogger(__name__)


async def part_from(connection: Connection, name: str) -> str | None:
    """Close it. None, or why it would not end even when asked again; that is logged too (S002-41)."""
    problem = None
    for bound_s in TRIES_S:
        try:
            async with asyncio.timeout(bound_s):
                await connection.close()
        except TimeoutError:
            problem = f"it did not end within {bound_s:g} s"
        except McpError as error:
            problem = error.message
        else:
            return None
        _log.warning("MCP server %s could not be stopped: %s", name, problem)
    return problem
