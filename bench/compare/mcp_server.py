"""The MCP server of W3: one tool, `echo`, over standard input and output, without any library."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {
    "name": "echo",
    "description": "Say the text again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, or an error where the method is unknown."""
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            server = {"name": "bench", "version": "1"}
            return {"result": {"protocolVersion": version, "serverInfo": server, "capabilities": {"tools": {}}}}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
