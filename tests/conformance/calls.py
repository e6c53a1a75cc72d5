"""Every tool of a server called once, in the way that the conformance suite expects of a client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx2

from tertulia.errors import McpError
from tertulia.mcp.client.connection import SdkConnection
from tertulia.mcp.client.http_transport import HttpErrorTransport
from tertulia.mcp.config.definition import Http, OAuthOptions, ServerDefinition
from tertulia.mcp.config.launch import Launch, resolve_launch
from tertulia.mcp.server_connection import Caller, Elicitation, ElicitationResult, SamplingRequest, SamplingResult
from tertulia.protocol.ids import ConversationId
from tests.conformance.browser import AgreeingBrowser
from tests.deadlines import HANG_S
from tests.mcp.connected import reaching

CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
"""The document that the suite expects."""
ECHO = "json_schema_echo"
SAMPLES: dict[str, Any] = {"string": "text", "integer": 5, "number": 3.5, "boolean": True, "array": [], "null": None}


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit: the defaults, and for what is required something of its type."""
    properties: dict[str, Any] = schema.get("properties", {})
    wanted = {
        name: rule for name, rule in properties.items() if "default" in rule or name in schema.get("required", ())
    }
    return {name: rule.get("default", SAMPLES.get(str(rule.get("type")), {})) for name, rule in wanted.items()}


async def elicit(request: Elicitation) -> ElicitationResult:
    """A person who agrees to whatever is proposed."""
    return ElicitationResult("accept", filled(request.schema))


async def sample(request: SamplingRequest) -> SamplingResult:
    """A model of few words."""
    return SamplingResult("an answer", "a-model")


async def use(link: SdkConnection) -> None:
    """Call everything."""
    caller = Caller(ConversationId("conformance"), elicit, sample)
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
    listed = (await link.list_tools()).tools
    calls = [(call["name"], call.get("arguments", {})) for call in wanted] if wanted else []
    for name, arguments in calls or [(tool.name, filled(tool.input_schema)) for tool in listed]:
        if name == ECHO:
            # Wants to see the other tool's schema as it reached us.
            arguments = dict.fromkeys(arguments, listed[0].input_schema)
        try:
            answer = await link.call(name, arguments, caller, timeout_s=60, on_progress=lambda *_: None)
            sys.stdout.write(f"{name}: {answer.text[:200]}\n")
        except McpError as error:
            sys.stdout.write(f"{name}: {error}\n")


def note_listening() -> asyncio.Event:
    """Set once a GET request has been answered."""
    answered, real = asyncio.Event(), HttpErrorTransport.handle_async_request

    async def handle(self: HttpErrorTransport, request: httpx2.Request) -> httpx2.Response:
        response = await real(self, request)
        if request.method == "GET":
            answered.set()
        return response

    HttpErrorTransport.handle_async_request = handle  # type: ignore[method-assign]
    return answered


def server_at(url: str) -> tuple[ServerDefinition, Launch]:
    """How it is reached, and as whom we log in where the scenario says so."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client = {key: context[key] for key in ("client_id",) if key in context}
    secret = {"client_secret_env_var": "SECRET"} if "client_secret" in context else {}
    oauth = OAuthOptions(**client, **secret, client_metadata_url=CLIENT_METADATA)
    definition = ServerDefinition(name="conformance", transport=Http(url=url, oauth=oauth), sampling=True)
    return definition, resolve_launch(definition, {"SECRET": context.get("client_secret", "")})


async def use_all(url: str) -> None:
    """Connect, and call everything."""
    listens = note_listening()
    async with reaching() as reach:
        if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/"):
            reach.browser = AgreeingBrowser()
        link = await reach(server_at(url), within_s=60)
        if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "sse-retry":
            # It takes any GET after the call for the reconnection whose delay it measures. The stream on which we
            # listen from the beginning is opened beside all else, and on a busy machine only after the call.
            await asyncio.wait_for(listens.wait(), HANG_S)
        await use(link)
