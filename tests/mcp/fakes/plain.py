"""A server of both eras, made with the SDK: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from typing import Any

import anyio
import mcp_types as t
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from number import own_number

MODERN = "2026-07-28"
FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
NAMES = ["echo", "slow", "ask", "visit", "sample", "env", "version", "change"]
changes = InMemorySubscriptionBus()

parser = argparse.ArgumentParser()
parser.add_argument("over", nargs="*", default=["stdio"])
parser.add_argument("--record", default="")
parser.add_argument("--define", default="")
options = parser.parse_args()


def record(line: str) -> None:
    if options.record:
        with open(options.record, "a") as file:
            file.write(line + "\n")


def text(message: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=message)])


async def list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
    if options.define:
        with open(options.define) as file:
            return t.ListToolsResult.model_validate_json(file.read())
    return t.ListToolsResult(tools=[t.Tool(name=name, input_schema={"type": "object"}) for name in NAMES])


async def slow(ctx: Any, seconds: float) -> t.CallToolResult:
    try:
        for step in range(20):
            await ctx.session.report_progress(step, 20, f"step {step}")
            await anyio.sleep(seconds / 20)
    except anyio.get_cancelled_exc_class():
        record("cancelled slow")
        raise
    return text("done")


async def ask_back(ctx: Any, params: Any, request: Any) -> Any:
    """The answer of the client, or what has to be sent so that it comes."""
    if ctx.protocol_version < MODERN:
        method = request.method
        if method == "sampling/createMessage":
            return await ctx.session.create_message(request.params.messages, max_tokens=request.params.max_tokens)
        if request.params.mode == "url":
            return await ctx.session.elicit_url(request.params.message, request.params.url, "1")
        return await ctx.session.elicit_form(request.params.message, request.params.requested_schema)
    answer = (params.input_responses or {}).get("q")
    return answer if answer is not None else t.InputRequiredResult(input_requests={"q": request})


async def call_tool(ctx: Any, params: Any) -> Any:
    arguments = params.arguments or {}
    record(f"call {params.name}")
    match params.name:
        case "echo":
            return t.CallToolResult(
                content=[t.TextContent(text=arguments.get("text", ""))],
                structured_content={"ver": ctx.protocol_version},
            )
        case "slow":
            return await slow(ctx, arguments.get("seconds", 1))
        case "env":
            return text(json.dumps(dict(os.environ)))
        case "change":
            NAMES.append(f"new{len(NAMES)}")
            await changes.publish(ToolsListChanged())
            return text("changed")
        case "version":
            return text(ctx.protocol_version)
        case "ask":
            form = t.ElicitRequestFormParams(message=arguments.get("question", "Continue?"), requested_schema=FORM)
            answer = await ask_back(ctx, params, t.ElicitRequest(params=form))
        case "visit":
            page = t.ElicitRequestURLParams(message="Visit", url=arguments["url"], elicitation_id="1")
            answer = await ask_back(ctx, params, t.ElicitRequest(params=page))
        case "sample":
            message = t.SamplingMessage(role="user", content=t.TextContent(text=arguments.get("text", "hello")))
            wanted = t.CreateMessageRequestParams(messages=[message], max_tokens=9)
            answer = await ask_back(ctx, params, t.CreateMessageRequest(params=wanted))
        case name:
            raise MCPError(-32602, f"unknown tool {name}")
    if isinstance(answer, t.InputRequiredResult):
        return answer
    return text(answer.model_dump_json(by_alias=True, exclude_none=True))


server = Server(
    "plain",
    version="1.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(changes),
)


async def main() -> None:
    record(f"start {own_number()}")
    if options.over[0] == "http":
        import uvicorn

        listening = socket.create_server(("127.0.0.1", int(options.over[1])))
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])
    else:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())


anyio.run(main)
