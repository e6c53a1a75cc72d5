"""What the conformance suite calls: its fixtures behind our own serving layer, guard and HTTP server.

The suite knows no tokens, so one is put into each of its requests on their way in. Prints its address; ends with its
standard input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tertulia.errors import MethodNotFoundError, NotFoundError
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.sources import PromptArgument, ServedCall, ServedPrompt, ServedResource, ServedTool
from tertulia.mcp.server_connection import CallResult, Elicitation
from tertulia.protocol.items import ImagePart
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import MAX_BODY_BYTES, RequestGuard
from tertulia.server.http.server import HttpServer, listen, url_of
from tertulia.server.jsonrpc.stdio import read_chunks
from tertulia.server.mcp.transport import refuse_non_messages

TOKEN = "0123456789abcdef0123456789abcdef"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJ"
    "RU5ErkJggg=="
)
ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
OPTIONS = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


FORMS = {
    "test_elicitation": form(username={"type": "string"}, email={"type": "string"}),
    "test_elicitation_sep1034_defaults": form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    ),
    "test_elicitation_sep1330_enums": form(
        untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
        titledSingle={"type": "string", "oneOf": OPTIONS},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        titledMulti={"type": "array", "items": {"anyOf": OPTIONS}},
    ),
    "test_input_required_result_elicitation": NAME,
    "test_input_required_result_capabilities": NAME,
    "test_input_required_result_tampered_state": NAME,
    "test_streaming_elicitation": NAME,
}


async def ask(call: ServedCall, schema: dict[str, Any], message: str = "What is your name?") -> dict[str, Any]:
    answer = await call.elicit(Elicitation("conformance", message, schema))
    return {"action": answer.action, "content": answer.content}


async def simple(call: ServedCall) -> CallResult:
    return CallResult("This is a simple text response for testing.")


async def picture(call: ServedCall) -> CallResult:
    return CallResult("", parts=(ImagePart(PIXEL),))


async def fails(call: ServedCall) -> CallResult:
    return CallResult("This tool intentionally returns an error for testing", is_error=True)


async def progressing(call: ServedCall) -> CallResult:
    for done in (0, 50, 100):
        call.progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return CallResult("done")


async def elicited(call: ServedCall) -> CallResult:
    answer = await ask(call, FORMS[call.tool], str(call.arguments.get("message", "What is your name?")))
    name = (answer["content"] or {}).get("name")
    return CallResult(f"Hello, {name}! {answer}")


async def confirmed(call: ServedCall) -> CallResult:
    await ask(call, form(ok={"type": "boolean"}), "Please confirm")
    return CallResult("state-ok")


async def two_rounds(call: ServedCall) -> CallResult:
    name = await ask(call, NAME, "Step 1: What is your name?")
    colour = await ask(call, form(color={"type": "string"}), "Step 2: What is your favorite color?")
    return CallResult(f"{name} {colour}")


TOOLS: dict[str, Callable[[ServedCall], Awaitable[CallResult]]] = {
    "test_simple_text": simple,
    "test_image_content": picture,
    "test_error_handling": fails,
    "test_tool_with_progress": progressing,
    "json_schema_2020_12_tool": simple,
    "test_input_required_result_request_state": confirmed,
    "test_input_required_result_multi_round": two_rounds,
    "test_custom_headers": simple,
    "test_trigger_tool_change": simple,
    **dict.fromkeys(FORMS, elicited),
}
SCHEMAS: dict[str, Any] = {
    "json_schema_2020_12_tool": SCHEMA_2020_12,
    "test_elicitation": form(message={"type": "string"}),
    "test_custom_headers": form(region={"type": "string", "x-mcp-header": "Region"}),
}


class Fixtures:
    """Implements `Served` and `Library`."""

    template = "test://template/{id}/data"

    def __init__(self) -> None:
        self._changed: list[Callable[[], None]] = []

    async def tools(self) -> Sequence[ServedTool]:
        return [
            ServedTool(name, "a fixture", msgspec.json.encode(SCHEMAS.get(name, ANYTHING)).decode()) for name in TOOLS
        ]

    async def call(self, call: ServedCall) -> CallResult:
        if call.tool not in TOOLS:
            raise MethodNotFoundError(f"there is no tool {call.tool!r}")
        if call.tool == "test_trigger_tool_change":
            for changed in self._changed:
                changed()
        return await TOOLS[call.tool](call)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._changed.append(changed)
        return lambda: self._changed.remove(changed)

    async def resources(self) -> Sequence[ServedResource]:
        return [ServedResource("test://static-text", "static-text", mime_type="text/plain")]

    async def check(self, uri: str) -> None:
        if uri != "test://watched-resource":
            await self.read(uri)

    def watch_content(self, changed: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    async def prompts(self) -> Sequence[ServedPrompt]:
        arguments = tuple(PromptArgument(name, f"the argument {name}", required=True) for name in ("arg1", "arg2"))
        return [
            ServedPrompt("test_simple_prompt", "a prompt"),
            ServedPrompt("test_prompt_with_arguments", "a prompt that is filled", arguments),
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        match name:
            case "test_simple_prompt":
                return "This is a simple prompt for testing."
            case "test_prompt_with_arguments":
                return f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            case _:
                raise NotFoundError(f"there is no prompt {name}")

    async def read(self, uri: str) -> str:
        if uri == "test://static-text":
            return "This is the content of the static text resource."
        if uri.startswith("test://template/"):
            number = uri.split("/")[3]
            return msgspec.json.encode({"id": number, "templateTest": True, "data": f"Data for ID: {number}"}).decode()
        raise NotFoundError(f"there is no {uri}")


def with_token(app: Any) -> Any:
    async def tokened(scope: Any, receive: Any, send: Any) -> None:
        headers = [*scope["headers"], (b"authorization", b"Bearer " + TOKEN.encode())]
        await app({**scope, "headers": headers}, receive, send)

    return tokened


async def main() -> None:
    load_sdk()
    fixtures, nursery = Fixtures(), Nursery()
    broker = McpEndpoint(fixtures, name="conformance", spawn=nursery.start, library=fixtures, prompts=fixtures)
    app = broker.server.streamable_http_app(max_request_body_size=MAX_BODY_BYTES)
    server = HttpServer(with_token(RequestGuard(refuse_non_messages(app), TOKEN)))
    with listen(0) as listening:
        async with broker.server.session_manager.run():
            serving = nursery.start(server.serve(listening), "http")
            sys.stdout.write(f"{url_of(listening)}/mcp\n")
            sys.stdout.flush()
            async for _ in read_chunks(0):
                pass
            server.stop()
            await serving
    broker.close()
    await nursery.close(1)


if __name__ == "__main__":
    asyncio.run(main())
