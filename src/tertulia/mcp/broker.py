"""Speaks MCP with our clients, in both eras, for whatever is served: lists, calls, progress, cancellation, asking back.

In the old era a person is asked by a request to the client while the call goes on. In the new one there are no such
requests: the call is answered with what has to be asked, it waits here, and the client calls again with the answer.
"""

from __future__ import annotations

import asyncio
import base64
import re
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgspec

from tertulia.errors import AgentError, NoApprover
from tertulia.mcp.server import Answer, Elicitation, Elicited, Spawn
from tertulia.mcp.serving import Served, ServedCall, ServedTool
from tertulia.mcp.suspended import Question, RunningCall, WaitingRoom
from tertulia.protocol.items import ImagePart
from tertulia.version import __version__

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.session import ServerSession

_MODERN = "2026-07-28"
_QUESTION = "question"
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)\Z", re.DOTALL)


class Broker:
    """One served thing as an MCP server, over any number of connections. Needs the `mcp` package when it is made."""

    def __init__(self, served: Served, *, name: str, spawn: Spawn, instructions: str | None = None) -> None:
        from mcp.server.lowlevel import Server
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self._served = served
        self._spawn = spawn
        self._waiting = WaitingRoom()
        self._sessions: WeakSet[ServerSession] = WeakSet()
        self._news = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            name,
            version=__version__,
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._news),
        )
        """The SDK's, to be run over whatever connection there is."""
        self._unwatch = served.watch(self._changed)

    async def serve(self, reading: Any, writing: Any) -> None:
        """One connection, given as the SDK's pair of streams, until its other side is gone."""
        from mcp.server.lowlevel import NotificationOptions

        options = self.server.create_initialization_options(NotificationOptions(tools_changed=True))
        await self.server.run(reading, writing, options)

    def close(self) -> None:
        """Give up the calls that wait for a client."""
        self._unwatch()
        self._waiting.close()

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        import mcp_types as t

        if ctx.protocol_version < _MODERN:
            self._sessions.add(ctx.session)
        return t.ListToolsResult(tools=[_as_tool(tool) for tool in await self._served.tools()])

    def _changed(self) -> None:
        self._spawn(self._tell(), "tell clients that tools changed")

    async def _tell(self) -> None:
        from mcp.server.subscriptions import ToolsListChanged
        from mcp.shared.exceptions import MCPError

        await self._news.publish(ToolsListChanged())
        for session in list(self._sessions):
            try:
                await session.send_tool_list_changed()
            except (MCPError, OSError):
                # Its connection is gone; so is its need to know.
                self._sessions.discard(session)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        try:
            running = self._running(ctx, params)
        except AgentError as error:
            return _refusal(error)
        try:
            while (question := await running.next()) is not None:
                if ctx.protocol_version >= _MODERN:
                    return _input_required(question, self._waiting.enter(running, question))
                question.reply(await _push(ctx, question.asked))
            return _as_result(await running.result())
        except AgentError as error:
            return _refusal(error)
        except asyncio.CancelledError:
            running.cancel()
            raise

    def _running(self, ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> RunningCall:
        if params.request_state is not None:
            running, question = self._waiting.leave(params.request_state)
            question.reply(_elicited((params.input_responses or {}).get(_QUESTION)))
            return running
        running = RunningCall()
        call = ServedCall(
            tool=params.name,
            arguments=dict(params.arguments or {}),
            client=_client(ctx),
            can_be_asked=_can_be_asked(ctx),
            elicit=running.elicit if _can_be_asked(ctx) else _nobody,
            progress=partial(self._progress, ctx),
        )
        running.begin(self._served.call(call), self._spawn)
        return running

    def _progress(self, ctx: ServerRequestContext[Any], done: float, total: float | None, message: str | None) -> None:
        self._spawn(ctx.session.report_progress(done, total, message), "progress of a client's call")


async def _nobody(asked: Elicitation) -> Elicited:
    raise NoApprover("the client cannot ask anybody")


async def _push(ctx: ServerRequestContext[Any], asked: Elicitation) -> Elicited:
    from mcp.shared.exceptions import MCPError

    try:
        if asked.url is not None:
            said = await ctx.session.elicit_url(asked.message, asked.url, asked.url, ctx.request_id)
        else:
            said = await ctx.session.elicit_form(asked.message, asked.schema, ctx.request_id)
    except MCPError:
        # It said that it could be asked, and cannot.
        return Elicited("cancel")
    return _elicited(said)


def _can_be_asked(ctx: ServerRequestContext[Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _client(ctx: ServerRequestContext[Any]) -> str:
    params = ctx.session.client_params
    return "" if params is None else f"{params.client_info.name} {params.client_info.version}"[:200]


def _elicited(said: Any) -> Elicited:
    import mcp_types as t

    if not isinstance(said, t.ElicitResult):
        return Elicited("cancel")
    return Elicited(said.action, dict(said.content or {}) if said.action == "accept" else None)


def _input_required(question: Question, ticket: str) -> t.InputRequiredResult:
    import mcp_types as t

    asked = question.asked
    params = (
        t.ElicitRequestFormParams(message=asked.message, requested_schema=asked.schema)
        if asked.url is None
        else t.ElicitRequestURLParams(message=asked.message, url=asked.url, elicitation_id=ticket)
    )
    return t.InputRequiredResult(input_requests={_QUESTION: t.ElicitRequest(params=params)}, request_state=ticket)


def _as_tool(tool: ServedTool) -> t.Tool:
    import mcp_types as t

    hints = t.ToolAnnotations(
        title=tool.title,
        read_only_hint=tool.hints.read_only,
        destructive_hint=tool.hints.destructive,
        idempotent_hint=tool.hints.idempotent,
        open_world_hint=tool.hints.open_world,
    )
    schema = msgspec.json.decode(tool.schema)
    return t.Tool(
        name=tool.name, title=tool.title, description=tool.description, input_schema=schema, annotations=hints
    )


def _as_result(answer: Answer) -> t.CallToolResult:
    import mcp_types as t

    content: list[t.ContentBlock] = [t.TextContent(text=answer.text)] if answer.text or not answer.parts else []
    for part in answer.parts:
        picture = _DATA_URL.match(part.image_url) if isinstance(part, ImagePart) else None
        if picture is not None and _is_base64(picture[2]):
            content.append(t.ImageContent(data=picture[2], mime_type=picture[1]))
        else:
            content.append(t.TextContent(text=part.image_url if isinstance(part, ImagePart) else part.text))
    return t.CallToolResult(content=content, structured_content=answer.structured, is_error=answer.is_error)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _refusal(error: AgentError) -> t.CallToolResult:
    import mcp_types as t

    said = msgspec.json.encode({"ok": False, "code": error.code, "reason": error.message}).decode()
    return t.CallToolResult(content=[t.TextContent(text=said)], is_error=True)
