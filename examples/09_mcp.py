"""One MCP server for many conversations, and each sees of it what it was given."""

import asyncio
import sys

import tertulia
from tertulia.testing import ScriptedAnswer, ScriptedModel, call, say

SERVER = """
import os
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

app = MCPServer("notes")

@app.tool(annotations=ToolAnnotations(readOnlyHint=True))
def read(title: str) -> str:
    "Read a note."
    return f"{title}: written in process {os.getpid()}"

@app.tool()
def erase(title: str) -> str:
    "Erase a note."
    return f"{title} is gone"

app.run()
"""


async def main() -> None:
    read: list[ScriptedAnswer] = [call("notes__read", {"title": "plan"}), say("read")]
    erase: list[ScriptedAnswer] = [call("notes__erase", {"title": "plan"}), say("erased")]
    model = ScriptedModel([*read, *read, *erase, *erase])
    # Required: the session begins when it is ready. One that is not may also come later, while conversations go on.
    servers = {"notes": {"command": sys.executable, "args": ["-c", SERVER], "required": True}}
    async with tertulia.Session.start(tertulia.Settings(model=model, mcp_servers=servers)) as session:
        print(session.info.mcp)
        reader = await session.open(mcp_tool_allowlist=["notes__read"])
        writer = await session.open()
        assert [t.name for t in reader.tools() if t.source == "mcp"] == ["notes__read"]
        outputs: list[str] = []
        async with session.events(after=0) as events, session.approvals.answer_with(lambda request: "allow"):
            for conversation in (reader, writer, reader, writer):
                await conversation.message("go on")
            async for event in events:
                if isinstance(event.data, tertulia.ToolCallEnd):
                    outputs.append(event.data.output)
                    print(event.data.name, "->", event.data.output)
                    if len(outputs) == 4:
                        break
    first, second, refused, erased = outputs
    assert first == second, "two conversations, one process"
    assert "there is no tool" in refused, "what it cannot see it cannot call either"
    assert erased == "plan is gone", "asked about, and allowed"


asyncio.run(main())
