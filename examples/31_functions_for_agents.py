"""A Python function of yours as a tool of a foreign agent: it is offered by the one MCP server that the agent gets.

The agent is a program of a few lines here; Codex, Claude Code and ACP agents get the same server.
"""

import asyncio
import sys

import tertulia
from tertulia.testing import ScriptedModel

AGENT = """
import json, subprocess, sys
command, arguments = map(json.loads, sys.argv[1:3])
server = subprocess.Popen([command, *arguments], stdin=-1, stdout=-1, text=True)

def ask(number, method, **params):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]

ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "agent", "version": "1"})
answer = ask(2, "tools/call", name="price_of", arguments={"fruit": sys.stdin.read().strip()})
print(answer["content"][0]["text"])
server.stdin.close()
server.wait()
"""


def price_of(fruit: str) -> str:
    """What a fruit costs.

    Args:
        fruit: Its name.
    """
    prices = {"plum": "3 cents", "pear": "5 cents"}
    return prices[fruit]


async def main() -> None:
    agent: dict[str, object] = {
        "command": [sys.executable, "-c", AGENT],
        "server": ["{command}", "{args}"],
        "sandbox": {"workspace-write": []},
    }
    settings = tertulia.Settings(model=ScriptedModel([]), executors={"grocer": agent}, tools=[price_of])
    async with tertulia.Session.start(settings) as session:
        grocer = await session.open(backend="command:grocer")
        reply = await grocer.message("plum")
        assert (reply.status, reply.text) == ("completed", "3 cents"), reply.error
        print(reply.text)


asyncio.run(main())
