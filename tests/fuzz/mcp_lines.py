"""Lines of an MCP server or client."""

from __future__ import annotations

import json

from mcp_types import JSONRPCRequest, JSONRPCResponse

from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines
from tertulia.mcp.server_connection import MODERN

SEEDS = [
    b'{"jsonrpc":"2.0","id":1,"result":{"tools":[],"text":"\\ud83d\\ude00 \\ud800"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no","data":[1]}}',
    b'{"jsonrpc":"2.0","id":"a","method":"sampling/createMessage","params":{"messages":[]}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}',
    b'{"jsonrpc":"2.0","id":null,"method":"x"}',
]
WORDS = [
    *(b'"jsonrpc":"2.0"', b'"id":1', b'"method":"', b'"params":{', b'"result":{', b'"error":{"code":1,"message":""}'),
    *(b"\\ud800", b"\\udc00", b"18446744073709551616", b"1e999", b"null", b"[[[[[[[["),
]
_ASKED = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list")


def fuzz(data: bytes) -> None:
    """A line is a message that can be said again and answered, or it is counted as dropped."""
    for modern in (False, True):
        lines = JsonRpcLines("fuzzed")
        lines.version = MODERN if modern else "2025-11-25"
        lines.encode(_ASKED)
        message = lines.read(data)
        assert (message is None) == (lines.dropped.total() == 1)
        if message is not None:
            assert json.loads(lines.encode(message))["jsonrpc"] == "2.0"
        if isinstance(message, JSONRPCRequest):
            answered = lines.encode(JSONRPCResponse.model_construct(jsonrpc="2.0", id=message.id, result={}))
            assert json.loads(answered)["id"] == message.id
