"""Lines of a client at a whole connection, before and after `initialize` (D9, D10, D16)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.server.client import MemorySink, model

_DEADLINE_S = HANG_S

SEEDS = [
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n{"jsonrpc":"2.0","id":2,"method":"conversation/list"}',
    b'[{"jsonrpc":"2.0","id":1,"method":"initialize"},{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}},1]',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n{"jsonrpc":"2.0","id":2,"method":"events/subscribe"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"nothing","params":{"session_id":"x","sessionId":3}}',
    b'{"jsonrpc":"2.0","method":"initialize","params":{"session_id":"00000000"}}\n{"id":null}',
]
WORDS = [
    *(
        b'"jsonrpc":"2.0"',
        b'"id":',
        b'"method":"',
        b'"params":{',
        b'"initialize"',
        b'"events/subscribe"',
        b"session_id",
    ),
    *(
        b'"conversation/list"',
        b'"session/list"',
        b'"approval/list"',
        b'"conversation/history"',
        b"after_seq",
        b"\\ud800",
    ),
    *(b"conversation_id", b"18446744073709551616", b"-1", b"null"),
]


def fuzz(data: bytes) -> None:
    """Each line is answered as its form demands, never as a fault of ours, and the connection ends in time."""
    asyncio.run(_conversation(data.split(b"\n")[:8]))


async def _conversation(lines: list[bytes]) -> None:
    sink = MemorySink()
    async with asyncio.timeout(_DEADLINE_S):
        host = Host(Settings(model=model()))
        connection = RpcConnection(host, sink)
        for line in lines:
            await connection.receive(line)
        await connection.idle()
        assert await connection.close(_DEADLINE_S)
        await host.close()
    for message in sink.messages:
        for request in message if isinstance(message, list) else [message]:
            _check(request)


def _check(message: dict[str, Any]) -> None:
    assert message["jsonrpc"] == "2.0"
    if "error" in message:
        assert message["error"]["data"]["code"] != "internal", json.dumps(message)
