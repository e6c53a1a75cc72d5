"""Serves the conversations of a session as an MCP server, also at the route `/mcp` of `tertulia serve`.

Serves both eras of the protocol. The arguments of a call name the conversation, never the connection: each call may
come over another one. The operations are those of `session/operations.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, McpError, MethodNotFoundError
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult, Spawn, ToolHints
from tertulia.protocol.inputs import Message
from tertulia.protocol.name_hints import name_hint
from tertulia.scheduler.nursery import Nursery
from tertulia.server.api_schema import params_schema, result_schema
from tertulia.server.http.guard import MAX_BODY_BYTES, App, HttpRefusal, Receive, Scope, Send
from tertulia.server.mcp.codex_tools import CODEX_TOOLS, CodexTools
from tertulia.server.mcp.conversation_library import ConversationLibrary, ConversationPrompts
from tertulia.server.mcp.message_call import run_message_call
from tertulia.server.mcp.transport import refuse_non_messages
from tertulia.server.shared_session import SharedSession
from tertulia.session.answers import message_answer
from tertulia.session.host import Host
from tertulia.session.inputs import parse, to_snake_case
from tertulia.session.operations import call as operate
from tertulia.session.session import Session

_INSTRUCTIONS = (
    "Agents to hand work to. `conversation_open` makes one with instructions, rights and tools of its own, "
    "`conversation_message` gives it a task and waits for the answer; `root` is a conversation that is always there. "
    "Conversations do not see each other. A refusal is JSON with `code` and `reason`."
)

_READS = ToolHints(read_only=True, destructive=False, idempotent=True, open_world=False)
_CHANGES = ToolHints(read_only=False, destructive=False, open_world=False)
_WORKS = ToolHints()

_OPEN = (
    "Open an isolated conversation with an agent. Everything is optional: base_instructions, model (provider/model), "
    "sandbox (read-only, workspace-write, danger-full-access), approval_policy, cwd, mcp_tool_allowlist, title and "
    "more. It never gets more rights than the session has; `narrowed` says what was not given."
)
_MESSAGE = (
    "Give the agent a task and wait until it is done. The answer is in last_assistant_message; a task that failed says "
    "so in status and error. The same message_id again gives the same answer and runs nothing twice."
)
_STEER = "Put in a word while the agent works; it reads it before its next step."
_SET_CONTEXT = (
    "Change instructions, model, tools or rights from the next step on. What is left out stays, null resets it."
)
_TOOLS: dict[str, tuple[str, ToolHints, str]] = {
    "conversation_open": ("conversation/open", _CHANGES, _OPEN),
    "conversation_message": ("conversation/message", _WORKS, _MESSAGE),
    "conversation_steer": ("conversation/steer", _CHANGES, _STEER),
    "conversation_interrupt": ("conversation/interrupt", _CHANGES, "Stop what the agent does now."),
    "conversation_list": ("conversation/list", _READS, "List all conversations with status and title, root first."),
    "conversation_history": ("conversation/history", _READS, "Read what was said, oldest first; at most `limit`."),
    "conversation_tools": ("conversation/tools", _READS, "List the tools that the agent has."),
    "conversation_set_context": ("conversation/set_context", _CHANGES, _SET_CONTEXT),
    "conversation_close": ("conversation/close", _CHANGES, "Stop the agent and let the conversation go."),
}


def build_conversation_server(host: Host, spawn: Spawn) -> McpEndpoint:
    """Build the server, for any number of connections. Its session starts with the first call that needs one."""
    tools = ConversationTools(host, spawn)
    return McpEndpoint(
        tools,
        name="tertulia",
        spawn=spawn,
        instructions=_INSTRUCTIONS,
        library=tools.library,
        prompts=tools.prompts,
    )


class ConversationTools:
    """Implements `ToolSource`: each tool is an operation of one session."""

    def __init__(self, host: Host, spawn: Spawn) -> None:
        self._host = host
        self._shared = SharedSession(host, spawn, "the session of MCP clients", self._follow)
        self._codex = CodexTools(host)
        self._listed: list[ServedTool] = []
        self.library = ConversationLibrary(self._shared.get)
        """The same conversations as resources to read."""
        self.prompts = ConversationPrompts(self._shared.get, host.settings.agents)

    def _follow(self, session: Session) -> None:
        self.library.follow(session)

    async def tools(self) -> Sequence[ServedTool]:
        """The tools, always the same in the same order."""
        if not self._listed:
            self._listed = [_served(name, *about) for name, about in _TOOLS.items()] + list(CODEX_TOOLS)
        return self._listed

    async def call(self, call: ServedCall) -> CallResult:
        """Carry out the operation that the tool stands for."""
        if call.tool in CodexTools.NAMES:
            return await self._codex.call(call)
        if call.tool not in _TOOLS:
            hint = name_hint(call.tool[:64], [*_TOOLS, *CodexTools.NAMES])
            raise MethodNotFoundError(f"there is no tool {call.tool[:64]!r}; {hint}")
        name = _TOOLS[call.tool][0]
        arguments = to_snake_case(call.arguments)
        session = await self._shared.get()
        if name == "conversation/message" and not arguments.get("detach"):
            named = self._named(session, arguments)
            return _answer(message_answer(await run_message_call(named, parse(Message, arguments), call)))
        return _answer((await operate(self._host, session, name, arguments)).answer)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Never calls `changed`: the list of tools stays the same."""
        return lambda: None

    def _named(self, own: Session, arguments: dict[str, Any]) -> Session:
        session_id = arguments.pop("session_id", None)
        if session_id is not None and not isinstance(session_id, str):
            raise InvalidParamsError("session_id must be a string")
        return own if session_id is None else self._host[session_id]


def _served(name: str, operation: str, hints: ToolHints, description: str) -> ServedTool:
    params, result = params_schema(operation), result_schema(operation)
    about = "Another session than that of this connection."
    params["properties"] = {**params["properties"], "session_id": {"type": "string", "description": about}}
    if operation == "conversation/message":
        # With `detach` the answer has only the task id.
        result["required"] = ["task_id"]
    return ServedTool(
        name=name,
        description=description,
        schema=msgspec.json.encode(params).decode(),
        hints=hints,
        output_schema=msgspec.json.encode(result).decode(),
    )


def _answer(answer: Any) -> CallResult:
    structured = msgspec.to_builtins(answer)
    text = msgspec.json.encode(structured).decode()
    return CallResult(text, structured=structured, total_bytes=len(text))


MAX_CLIENTS = 1_000
"""The most MCP sessions over HTTP at once, for clients whose version of the protocol has sessions."""

_CLOSE_S = 2.0


class McpRoute:
    """The ASGI application for the path of the MCP server."""

    def __init__(self, host: Host, nursery: Nursery) -> None:
        self._host = host
        self._nursery = nursery
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._app: asyncio.Future[App] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._stop.is_set():
            await HttpRefusal(503, "closed", "the server is ending").answer(scope, send)
            return
        if self._app is None:
            self._app = asyncio.get_running_loop().create_future()
            self._running = self._nursery.start(self._run(self._app), "mcp over http")
        try:
            app = await asyncio.shield(self._app)
        except McpError as error:
            await HttpRefusal(501, error.code, error.message).answer(scope, send)
            return
        await app(scope, receive, send)

    async def close(self) -> None:
        """End every MCP session over HTTP."""
        self._stop.set()
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=_CLOSE_S)

    async def _run(self, ready: asyncio.Future[App]) -> None:
        """Run the SDK's session manager, which must be entered and left in one task."""
        try:
            await asyncio.to_thread(load_sdk)
        except McpError as error:
            ready.set_exception(error)
            return
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        broker = build_conversation_server(self._host, self._nursery.start)
        manager: Any = StreamableHTTPSessionManager(
            app=broker.server, max_request_body_size=MAX_BODY_BYTES, max_sessions=MAX_CLIENTS
        )
        try:
            async with manager.run():
                ready.set_result(refuse_non_messages(manager.handle_request))
                await self._stop.wait()
        finally:
            broker.close()
