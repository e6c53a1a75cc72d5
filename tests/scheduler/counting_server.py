"""An MCP server of the SDK with a tool for each hint: it writes down that it was called, and waits while FOLDER/hold is
there. `python counting_server.py FOLDER`
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count as numbers
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

FOLDER = Path(sys.argv[1])
server = MCPServer("counting")


async def count(name: str) -> str:
    """Write it down, and wait."""
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{name}\n")
    for _ in numbers():
        if not (FOLDER / "hold").exists():
            break
        await asyncio.sleep(0.01)
    return f"did {name}"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def idempotent() -> str:
    """Twice is as once."""
    return await count("idempotent")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def reading() -> str:
    """Changes nothing."""
    return await count("reading")


@server.tool()
async def plain() -> str:
    """Says nothing about itself."""
    return await count("plain")


server.run("stdio")
