"""What `tertulia serve` says of itself, and that it holds: schemathesis makes requests of it, right and wrong ones."""

from __future__ import annotations

import asyncio
import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tertulia.server.http.openapi import openapi_document
from tests.deadlines import HANG_S
from tests.server.served import TOKEN, Place, served, status
from tests.thorough import times

TOOLS = ("conversation_open", "conversation_list", "conversation_history", "conversation_close", "conversation_tools")
ARGUMENTS = {
    "anyOf": [
        {"type": "object", "properties": {"title": {"type": "string"}}, "additionalProperties": False},
        {"type": "object", "required": ["conversation_id"], "properties": {"conversation_id": {"type": "string"}}},
        {"type": "object", "properties": {"tools": {}, "sandbox": {}, "limit": {"type": "integer"}}},
    ]
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}
WITHOUT = [
    # A message of the right form may come at a wrong time, and be refused for that.
    "positive_data_acceptance",
    # The guard looks at a body before anybody asks whether there is such a route (test_guard, test_web).
    "unsupported_method",
]
LENIENT = "negative_data_rejection"
"""Not asked within a session: there the SDK takes `false` for a number, and does no harm by it."""
DEADLINE_S = HANG_S


def aimed_at(*tools: str) -> dict[str, Any]:
    """The document, but that every request is a call of one of these: no generator would hit upon that."""
    document = deepcopy(openapi_document())
    request = document["components"]["schemas"]["Request"]
    request["required"] = [*request["required"], "params"]
    request["properties"]["method"] = {"const": "tools/call"}
    request["properties"]["params"] = {
        "type": "object",
        "required": ["name", "arguments", "_meta"],
        "properties": {"name": {"enum": list(tools)}, "arguments": ARGUMENTS, "_meta": {"const": META}},
    }
    body = document["paths"]["/mcp"]["post"]["requestBody"]
    body["content"] = {"application/json": {"schema": {"$ref": "#/components/schemas/Request"}}}
    return document


async def schemathesis(
    place: Place, room: Path, document: dict[str, Any], *options: str, without: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Its exit code, and what it said."""
    (room / "openapi.json").write_text(json.dumps(document))
    url = f"http://127.0.0.1:{place.port}"
    headers = (f"Authorization: Bearer {TOKEN}", "Accept: application/json, text/event-stream")
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("schemathesis")), "--no-color", "run", "openapi.json", f"--url={url}"),
        *(f"--header={header}" for header in headers),
        *(
            f"--exclude-checks={','.join((*WITHOUT, *without))}",
            "--request-timeout=100",
            "--seed=1",
            f"--max-examples={times(30, 8)}",
            *options,
        ),
        cwd=room,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode("utf-8", "replace")


async def test_it_is_served_to_whoever_brings_the_token() -> None:
    """Issue 10, 6: every route is in it, and it says nothing without the token."""
    async with served() as place:
        assert status(await place.raw(place.head("GET", "/openapi.json", Authorization=None))) == 401
        answer = await place.raw(place.head("GET", "/openapi.json"))
        payload = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert payload == openapi_document()
        assert set(payload["paths"]) == {"/", *(route.path.replace(":path", "") for route in place.web.routes)}


@pytest.mark.slow
async def test_no_request_that_the_document_leads_to_breaks_the_server(tmp_path: Path) -> None:
    """D17: no 5xx, no hang, and every answer is one that the document names, in the form that it says."""
    async with served() as place:
        code, output = await schemathesis(place, tmp_path, openapi_document())
        assert code == 0, output
        assert "Tested: 18" in output
        assert status(await place.raw(place.head("GET", "/health"))) == 200


@pytest.mark.slow
@pytest.mark.parametrize("era", ["2025-11-25", pytest.param("2026-07-28", marks=pytest.mark.torture)])
async def test_no_call_of_a_tool_breaks_the_server(era: str, tmp_path: Path) -> None:
    """D17: the same with the token, with and without a session of MCP's."""
    async with served() as place:
        if era == "2025-11-25":
            tools, headers = TOOLS, {"Mcp-Session-Id": await _initialized(place)}
        else:
            tools, headers = TOOLS[:1], {"Mcp-Method": "tools/call", "Mcp-Name": TOOLS[0]}
        headers["Mcp-Protocol-Version"] = era
        options = (f"--header={name}: {value}" for name, value in headers.items())
        code, output = await schemathesis(
            place, tmp_path, aimed_at(*tools), *options, "--include-operation-id=mcp", without=(LENIENT,)
        )
        assert code == 0, output
        # The root, and what was opened.
        assert len(list(place.host.sessions[0].parts.conversations)) > 1
        assert await _initialized(place)


async def _initialized(place: Place) -> str:
    """The id of a new session of the old era."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    fields = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    head, _, _ = (await place.raw(place.post(json.dumps(fields).encode()))).partition(b"\r\n\r\n")
    found = [line.split(b": ", 1)[1] for line in head.split(b"\r\n") if line.lower().startswith(b"mcp-session-id")]
    return found[0].decode()
