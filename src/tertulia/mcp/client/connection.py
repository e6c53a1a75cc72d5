"""A connection to one MCP server: implements `ServerConnection` with the SDK's client.

One task owns the client from the handshake to the end. The SDK's client is used only here and in the transports; it is
loaded with the first connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from tertulia.errors import McpError
from tertulia.mcp.client.call_result import parse_call_result
from tertulia.mcp.client.error_text import explain_error, quote_server_text, sdk_errors, server_error
from tertulia.mcp.client.secret_scrubber import SecretScrubber
from tertulia.mcp.client.server_requests import CallAttribution, CallInProgress, IncomingRequests, clear_current_call
from tertulia.mcp.client.stdio_transport import StdioTransport
from tertulia.mcp.client.tool_listing import is_deeper, list_all_tools
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch, secrets_in_launch
from tertulia.mcp.server_connection import MODERN, Caller, CallResult, ConnectionServices, OnProgress, ToolListing
from tertulia.package_loading import PackageError, load_package
from tertulia.policy.redaction import Redactor
from tertulia.version import __version__

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client
    from mcp.client.session import IncomingMessage

    from tertulia.mcp.client.http_transport import HttpTransport

_log = logging.getLogger(__name__)
_CLOSE_S = 10.0
_DEEPEST = 200
_LISTEN_AGAIN_S = 5.0
_QUIET = ("client", "httpcore2", "httpx2", "mcp.client", "mcp.shared")
"""Loggers that would write messages of servers to the log."""


async def connect(definition: ServerDefinition, launch: Launch, services: ConnectionServices) -> SdkConnection:
    """Connect and agree on a protocol version. McpError says why not; there is no time limit, the caller may cancel."""
    await asyncio.to_thread(_load)
    link = SdkConnection(definition, launch, services)
    await link.open()
    return link


def _load() -> None:
    """Import the SDK, which takes a second the first time."""
    try:
        load_package(
            "MCP servers need", "mcp", "mcp", "mcp.client.streamable_http", "mcp.client.auth.utils", quiet=_QUIET
        )
    except PackageError as error:
        raise McpError(str(error)) from error


class SdkConnection:
    """A server connected through the SDK; implements `ServerConnection`."""

    def __init__(self, definition: ServerDefinition, launch: Launch, services: ConnectionServices) -> None:
        self.gone = asyncio.Event()
        self.why: str | None = None
        self._definition, self._launch = definition, launch
        self._services, self._spawn = services, services.spawn
        self._faults = sdk_errors()
        secrets = secrets_in_launch(definition, launch)
        self._redactor, self._scrubber = Redactor(secrets), SecretScrubber(secrets)
        self._calls = CallAttribution()
        self._incoming = IncomingRequests(definition, launch.roots, self._calls, services.spawn, self._scrubber)
        self._client: Client | None = None
        self._version = ""
        self._over = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None
        self._transport = self._new_transport()

    # ---- the interface

    @property
    def protocol_version(self) -> str:
        """The protocol version that was agreed on."""
        return self._version

    @property
    def dropped(self) -> Counter[str]:
        """How many messages were dropped, by kind."""
        return self._transport.dropped

    @property
    def asked_roots(self) -> bool:
        """Whether the server has asked for the client's roots."""
        return self._incoming.asked_roots

    async def list_tools(self) -> ToolListing:
        """All tools, within the server's startup timeout."""
        client = self._open_client()
        name, limit_s = self._definition.name, self._definition.startup_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return self._scrubber.clean(await list_all_tools(name, client))
        except TimeoutError:
            raise server_error(name, "timeout", f"it did not list its tools within {limit_s:g} s") from None
        except self._faults as error:
            raise self._explained(error) from None

    async def call(
        self, tool: str, arguments: dict[str, Any], caller: Caller, *, timeout_s: float, on_progress: OnProgress
    ) -> CallResult:
        """Call a tool; a call that times out or is cancelled is cancelled at the server too."""
        client = self._open_client()
        if is_deeper(arguments, _DEEPEST):
            # The SDK cannot encode what is deeper, and its error would blame the server.
            raise server_error(self._definition.name, "limit", f"the arguments are nested deeper than {_DEEPEST}")
        try:
            async with asyncio.timeout(timeout_s) as limit:
                in_progress = CallInProgress(caller, _scrubbed_progress(on_progress, self._scrubber), limit)
                await self._calls.begin(in_progress)
                try:
                    result = await self._call_tool(client, tool, arguments, in_progress)
                finally:
                    self._calls.end(in_progress)
        except TimeoutError:
            sentence = f"`{quote_server_text(tool, 100)}` gave no answer within {timeout_s:g} s and was cancelled"
            raise server_error(self._definition.name, "timeout", sentence) from None
        except self._faults as error:
            raise self._explained(error) from None
        return self._scrubber.clean(parse_call_result(result))

    async def _call_tool(
        self, client: Client, tool: str, arguments: dict[str, Any], in_progress: CallInProgress
    ) -> types.CallToolResult:
        from mcp import MCPError
        from mcp_types import URL_ELICITATION_REQUIRED

        try:
            return await client.call_tool(tool, arguments, progress_callback=in_progress.progress)
        except MCPError as error:
            if error.code != URL_ELICITATION_REQUIRED or not await self._incoming.visited(in_progress, error.error):
                raise
        return await client.call_tool(tool, arguments, progress_callback=in_progress.progress)

    async def close(self) -> None:
        """Have the owner close the client, and wait until the server is gone."""
        self._over.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=_CLOSE_S)

    # ---- the owner

    async def open(self) -> None:
        """Start the owner, and wait for the end of the handshake."""
        self._owner = self._spawn(self._own(), f"mcp {self._definition.name}")
        self._owner.add_done_callback(self._owner_done)
        try:
            await self._opened
        except (asyncio.CancelledError, McpError):
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=_CLOSE_S)
            raise

    async def _own(self) -> None:
        clear_current_call()
        try:
            try:
                await self._hold("auto")
            except self._faults:
                if self._opened.done() or not self._transport.ended_by_itself:
                    raise
                # Some servers of the old protocol exit when the first message is not their handshake.
                self._transport = self._new_transport()
                self.why = None
                await self._hold("legacy")
        except McpError as error:
            self._fail(error)
        except self._faults as error:
            self._fail(self._explained(error))
        finally:
            self._client = None
            self.gone.set()

    async def _hold(self, mode: str) -> None:
        """Run the client from the handshake to the end."""
        async with self._new_client(mode) as client:
            _skip_result_validation(client)
            self._version = client.protocol_version
            self._transport.speak(self._version)
            self._client = client
            listening = self._spawn(self._listen(client), f"mcp {self._definition.name} changes")
            if not self._opened.done():
                self._opened.set_result(None)
            try:
                await self._over.wait()
            finally:
                self._client = None
                listening.cancel()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the tools, as the new protocol wants it. In the old one they come unasked."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        offered = client.server_capabilities.tools
        if offered is None or not offered.list_changed:
            return
        while not self._over.is_set():
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._services.tools_changed()
            except SubscriptionLost:
                _log.info("mcp server %s: it stopped telling of changes; asking again", self._definition.name)
            except ListenNotSupportedError:
                return
            except self._faults:
                _log.info("mcp server %s: it does not tell of changes", self._definition.name)
                return
            await asyncio.sleep(_LISTEN_AGAIN_S)
            # Changes in between were not announced.
            self._services.tools_changed()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, Exception) or message.method != "notifications/tools/list_changed":
            return
        # In the new protocol it comes here as well as to the subscription.
        if self._version < MODERN:
            self._services.tools_changed()

    def _new_client(self, mode: str) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        return Client(
            self._transport,
            mode=mode,
            cache=None,
            client_info=Implementation(name="tertulia", version=__version__),
            message_handler=self._on_message,
            **self._incoming.callbacks(),
        )

    def _new_transport(self) -> StdioTransport | HttpTransport:
        if self._launch.transport == "http":
            from tertulia.mcp.client.http_transport import HttpTransport

            return HttpTransport(
                self._definition.name,
                self._launch,
                self._services,
                lost=self._lost,
                learned=partial(_learn, self._redactor, self._scrubber),
            )
        return StdioTransport(
            self._definition, self._launch, runner=self._services.runner, spawn=self._spawn, lost=self._lost
        )

    def _lost(self, why: str) -> None:
        if self.why is None and not self._over.is_set():
            self.why = why
        if self._client is not None:
            self._over.set()

    def _owner_done(self, owner: asyncio.Task[None]) -> None:
        if not self._opened.done():
            self._opened.set_exception(
                server_error(self._definition.name, "closed", "it was closed before it was open")
            )

    def _fail(self, error: McpError) -> None:
        if self.why is None:
            self.why = error.message
        if not self._opened.done():
            self._opened.set_exception(error)

    def _open_client(self) -> Client:
        if self._client is None:
            raise server_error(
                self._definition.name, "closed", f"the connection is closed: {self.why or 'it was ended'}"
            )
        return self._client

    def _explained(self, error: Exception) -> McpError:
        reason, sentence = explain_error(error)
        if reason == "closed" and self.why is not None:
            sentence = self.why
        return server_error(self._definition.name, reason, self._redactor.text(sentence))


def _learn(redactor: Redactor, scrubber: SecretScrubber, token: str) -> None:
    """A token of the login: the server may repeat it."""
    redactor.register(token)
    scrubber.add((token,))


def _scrubbed_progress(on_progress: OnProgress, scrubber: SecretScrubber) -> OnProgress:
    return lambda done, total, message: on_progress(done, total, message and scrubber.text(message))


def _skip_result_validation(client: Client) -> None:
    """Take structured content as it comes.

    The SDK would validate it against the schema that the server gave for it; a pattern in that schema can keep the
    validator busy without end, on the loop of all other servers.
    """

    async def take(name: str, result: object) -> None:
        pass

    vars(client.session)["validate_tool_result"] = take
