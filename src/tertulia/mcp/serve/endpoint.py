"""An MCP server for a `ToolSource`, in the old and the new protocol: lists, calls, progress, cancellation, elicitation.

In the old protocol the client's user is asked by a request to the client while the call goes on. In the new one
(2026-07-28) there are no such requests: the call is answered with the question, it waits here, and the client calls
again with the answer.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import secrets
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tertulia.errors import BusyError, InvalidParamsError, McpError, NoApproverError, TertuliaError
from tertulia.mcp.serve.long_texts import LONG_TEXTS
from tertulia.mcp.serve.prompts import prompt_handlers
from tertulia.mcp.serve.resource_updates import ResourceSubscribers
from tertulia.mcp.serve.sdk_server import (
    MAX_LISTENERS,
    ListChangedSubscribers,
    ListNotice,
    make_sdk_server,
    on_client_initialized,
    resource_handlers,
)
from tertulia.mcp.serve.sources import PromptSource, ResourceSource, ServedCall, ServedTool, ToolSource
from tertulia.mcp.serve.suspended_calls import PendingQuestion, RunningCall, SuspendedCalls
from tertulia.mcp.server_connection import MODERN, CallResult, Elicitation, ElicitationResult, Spawn
from tertulia.package_loading import PackageError, load_package
from tertulia.protocol.items import ImagePart
from tertulia.version import __version__

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

_log = logging.getLogger(__name__)
_QUESTION = "question"
_INVALID_PARAMS = -32602
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)\Z", re.DOTALL)

MAX_CALLS = 256
"""Calls of one endpoint at once."""
_QUIET = ("mcp.server", "mcp.shared")
"""Loggers that would write messages of clients to the log."""


def load_sdk(purpose: str = "serving MCP needs") -> None:
    """Import the SDK. Takes a second the first time, so do it in a thread.

    Args:
        purpose: The beginning of the sentence that says what is missing.

    Raises:
        McpError: It is not installed.
    """
    try:
        load_package(purpose, "mcp", "mcp", "mcp.server.lowlevel", quiet=_QUIET)
    except PackageError as error:
        raise McpError(str(error)) from error


class McpEndpoint:
    """A `ToolSource` as an MCP server: over one connection, or over HTTP for any number of clients.

    `load_sdk` must be called before.
    """

    def __init__(
        self,
        source: ToolSource,
        *,
        name: str,
        spawn: Spawn,
        instructions: str | None = None,
        library: ResourceSource | None = None,
        prompts: PromptSource | None = None,
    ) -> None:
        from mcp.server.session import ServerSession
        from mcp.server.subscriptions import (
            InMemorySubscriptionBus,
            ListenHandler,
            ResourcesListChanged,
            ToolsListChanged,
        )

        self._source = source
        self._spawn = spawn
        self._calls = 0
        self._programs: Counter[str] = Counter()
        """How many calls each client has in progress."""
        self._waiting = SuspendedCalls()
        bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(bus, max_subscriptions=MAX_LISTENERS)
        self._users = ListChangedSubscribers(
            spawn, bus, ListNotice(ToolsListChanged(), ServerSession.send_tool_list_changed)
        )
        self._readers = ListChangedSubscribers(
            spawn, bus, ListNotice(ResourcesListChanged(), ServerSession.send_resource_list_changed)
        )
        self._updates = None if library is None else ResourceSubscribers(spawn, bus, library)
        self.server: Server[Any] = make_sdk_server(
            self._listening,
            resources=library is not None,
            updates=None if self._updates is None else self._updates.listening,
            name=name,
            version=__version__,
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            lifespan=self._connected,
            **_more_handlers(library, self._updates, prompts),
        )
        """The SDK's server, which can be run over any connection."""
        self._unwatch = [source.watch(self._users.tell)]
        if library is not None:
            self._unwatch.append(library.watch(self._readers.tell))
            on_client_initialized(self.server, self._readers.remember)

    @property
    def running(self) -> int:
        """How many calls are in progress, with those that wait for an answer of their client."""
        return self._calls

    async def serve(self, reading: Any, writing: Any) -> None:
        """Serve one connection, a pair of the SDK's streams, until the client is gone."""
        from anyio import BrokenResourceError

        try:
            await self.server.run(reading, writing, self.server.create_initialization_options())
        except* BrokenResourceError:
            # The SDK's own streams raise it when the server stops with a message in one of them.
            _log.debug("a client's connection ended before the last message was sent")

    @asynccontextmanager
    async def _connected(self, _: object) -> AsyncGenerator[object]:
        """The lifespan that the SDK wants: one for each pair of streams, one for everything over HTTP."""
        connection = object()
        try:
            yield connection
        finally:
            self._users.forget(connection)
            self._readers.forget(connection)
            if self._updates is not None:
                self._updates.forget(connection)

    def close(self) -> None:
        """Cancel the calls that wait for a client, and end the subscriptions of clients."""
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch.clear()
        self._users.close()
        self._readers.close()
        if self._updates is not None:
            self._updates.close()
        self._listening.close()
        self._waiting.close()

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        import mcp_types as t

        self._users.remember(ctx)
        return t.ListToolsResult(tools=[_as_tool(tool) for tool in await self._source.tools()])

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        running = None
        try:
            running = self._running(ctx, params)
            while (question := await running.next()) is not None:
                if ctx.protocol_version >= MODERN:
                    ticket = self._waiting.enter(running, question)
                    # It waits there now for the client's next request.
                    running = None
                    return _input_required(question, ticket)
                await self._ask(ctx, question)
            return _as_result(running.result())
        except TertuliaError as error:
            return _refusal(error)
        finally:
            if running is not None:
                running.cancel()

    def _running(self, ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> RunningCall:
        if params.request_state is not None:
            running, question = self._returning(params.request_state)
            running.report = ctx.session.report_progress
            question.reply(_elicitation_result((params.input_responses or {}).get(_QUESTION)))
            return running
        program = _program(ctx)
        # A client that has calls in progress does not get the last free place.
        if self._calls >= MAX_CALLS or (program and self._programs[program] > MAX_CALLS - self._calls):
            raise BusyError(f"{self._programs[program]} calls of this client are under way already", retry_after_s=1)
        running = RunningCall(self._spawn, ctx.session.report_progress)
        forms, pages = _can_ask(ctx)
        call = ServedCall(
            tool=params.name,
            arguments=_arguments(ctx, params),
            client=_client(ctx),
            can_be_asked=forms,
            elicit=partial(_elicit, running, forms=forms, pages=pages),
            progress=running.progress,
            program=program,
        )
        self._calls += 1
        self._programs[program] += 1
        running.begin(self._source.call(call), partial(self._ended, program))
        return running

    def _returning(self, ticket: str) -> tuple[RunningCall, PendingQuestion]:
        from mcp.shared.exceptions import MCPError

        try:
            return self._waiting.leave(ticket)
        except InvalidParamsError as error:
            # An error of the protocol, not a result of the tool.
            raise MCPError(_INVALID_PARAMS, error.message) from None

    def _ended(self, program: str) -> None:
        self._calls -= 1
        self._programs[program] -= 1
        # Removes entries of 0.
        self._programs += Counter()

    async def _ask(self, ctx: ServerRequestContext[Any], question: PendingQuestion) -> None:
        """Ask a client of the old protocol, as long as the call needs the answer."""
        asking = self._spawn(_elicit_by_request(ctx, question.elicitation), "ask a client")
        try:
            await asyncio.wait((asking, question.answer), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                question.reply(asking.result())
        finally:
            asking.cancel()


def _more_handlers(
    library: ResourceSource | None, updates: ResourceSubscribers | None, prompts: PromptSource | None
) -> dict[str, Any]:
    """Those of what is served beside tools."""
    handlers: dict[str, Any] = {}
    if library is not None and updates is not None:
        handlers |= resource_handlers(library) | updates.handlers()
    if prompts is not None:
        handlers |= prompt_handlers(prompts)
    return handlers


async def _elicit(running: RunningCall, elicitation: Elicitation, *, forms: bool, pages: bool) -> ElicitationResult:
    if not (forms if elicitation.url is None else pages):
        raise NoApproverError("the client cannot ask its user this")
    return await running.elicit(elicitation)


async def _elicit_by_request(ctx: ServerRequestContext[Any], elicitation: Elicitation) -> ElicitationResult:
    from mcp.shared.exceptions import MCPError

    try:
        if elicitation.url is not None:
            answer = await ctx.session.elicit_url(
                elicitation.message, elicitation.url, secrets.token_hex(8), ctx.request_id
            )
        else:
            answer = await ctx.session.elicit_form(elicitation.message, elicitation.schema, ctx.request_id)
    except (MCPError, ValueError):
        # It declared that it can be asked, and cannot, or its answer is invalid.
        return ElicitationResult("cancel")
    return _elicitation_result(answer)


def _arguments(ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> dict[str, Any]:
    arguments = dict(params.arguments or {})
    texts = None if ctx.request is None else ctx.request.scope.get(LONG_TEXTS)
    return arguments if texts is None else texts.put_back(arguments)


def _can_ask(ctx: ServerRequestContext[Any]) -> tuple[bool, bool]:
    """Whether the client's user can fill in a form, and visit a page. A client that does not say which means forms."""
    capabilities = ctx.session.client_capabilities
    asking = None if capabilities is None else capabilities.elicitation
    if asking is None:
        return False, False
    return asking.form is not None or asking.url is None, asking.url is not None


def _client(ctx: ServerRequestContext[Any]) -> str:
    params = ctx.session.client_params
    return "" if params is None else f"{params.client_info.name} {params.client_info.version}"[:200]


def _program(ctx: ServerRequestContext[Any]) -> str:
    """Tells the clients over HTTP apart: by session, and in the new protocol, which has none, by name."""
    if ctx.request is None:
        return ""
    return str(ctx.request.headers.get("mcp-session-id") or f"called {_client(ctx)}")


def _elicitation_result(answer: Any) -> ElicitationResult:
    import mcp_types as t

    if not isinstance(answer, t.ElicitResult):
        return ElicitationResult("cancel")
    return ElicitationResult(answer.action, dict(answer.content or {}) if answer.action == "accept" else None)


def _input_required(question: PendingQuestion, ticket: str) -> t.InputRequiredResult:
    import mcp_types as t

    elicitation = question.elicitation
    params = (
        t.ElicitRequestFormParams(message=elicitation.message, requested_schema=elicitation.schema)
        if elicitation.url is None
        else t.ElicitRequestURLParams(message=elicitation.message, url=elicitation.url, elicitation_id=ticket)
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
    return t.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=msgspec.json.decode(tool.schema),
        output_schema=None if tool.output_schema is None else msgspec.json.decode(tool.output_schema),
        annotations=hints,
    )


def _as_result(answer: CallResult) -> t.CallToolResult:
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


def _refusal(error: TertuliaError) -> t.CallToolResult:
    import mcp_types as t

    answer = msgspec.json.encode({"ok": False, "code": error.code, "reason": error.message}).decode()
    return t.CallToolResult(content=[t.TextContent(text=answer)], is_error=True)
