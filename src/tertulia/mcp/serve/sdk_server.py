"""The SDK's server, set up to announce changes of lists, and of single resources, over every transport.

By default the SDK announces none over HTTP in the old protocol, and in the new one those of prompts too.
`ListChangedSubscribers` tells clients of the new protocol that subscribed, and all of the old one. A client that does
not read delays no other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tertulia.errors import TertuliaError
from tertulia.mcp.serve.sources import ResourceSource
from tertulia.mcp.server_connection import MODERN, Spawn

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import NotificationOptions, Server
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ListenHandler, ServerEvent, SubscriptionBus

_INVALID_PARAMS = -32602
_NOT_FOUND = -32002
"""The code of the old protocol; the new one has none of its own for it."""
Send = Callable[[], Awaitable[object]]
MAX_LISTENERS = 256
"""Clients of one endpoint and one list that are told; of more than that the latest."""
MAX_SUBSCRIPTIONS = 100
"""Resources that one client is told of at most."""
NOTICE_INTERVAL_S = 0.1
"""Between two notices for one client: a hundred changes at once make one notice."""
NotifyClient = Callable[["ServerSession"], Awaitable[None]]


def make_sdk_server(
    listening: ListenHandler,
    *,
    resources: bool,
    updates: Callable[[Iterable[str]], AbstractContextManager[None]] | None = None,
    **fields: Any,
) -> Server[Any]:
    """The SDK's server with our capabilities. `resources`: whether they are served; `updates`: entered while a client
    listens to single ones. `fields`: its own arguments."""
    import mcp_types as t
    from mcp.server.lowlevel import NotificationOptions, Server

    announced = NotificationOptions(tools_changed=True, resources_changed=resources)

    class AnnouncingServer(Server[Any]):
        def create_initialization_options(
            self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
        ) -> Any:
            return super().create_initialization_options(notification_options or announced, *more, **named)

        def get_capabilities(self, *options: Any, **named: Any) -> t.ServerCapabilities:
            capabilities = super().get_capabilities(*options, **named)
            if capabilities.resources is not None:
                capabilities.resources.subscribe = updates is not None
            if capabilities.prompts is not None:
                capabilities.prompts.list_changed = False
            return capabilities

    async def listen(
        ctx: ServerRequestContext[Any], params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        requested = params.notifications
        supported = t.SubscriptionFilter(
            tools_list_changed=requested.tools_list_changed,
            resources_list_changed=requested.resources_list_changed if resources else None,
            resource_subscriptions=(requested.resource_subscriptions or [])[:MAX_SUBSCRIPTIONS] if updates else None,
        )
        uris = list(map(str, supported.resource_subscriptions or ()))
        with nullcontext() if updates is None else updates(uris):
            return await listening(ctx, params.model_copy(update={"notifications": supported}))

    return AnnouncingServer(on_subscriptions_listen=listen, **fields)


def connection_of(ctx: ServerRequestContext[Any]) -> Hashable:
    """What lasts of a client of the old protocol, for which the SDK makes a session for every request.

    Over a stream the lifespan is the connection's own; over HTTP all have the same, and a session id.
    """
    http = ctx.request
    return ctx.lifespan_context if http is None else http.headers.get("mcp-session-id", "")


def on_client_initialized(server: Server[Any], remember: Callable[[ServerRequestContext[Any]], None]) -> None:
    """Call `remember` for each client of the old protocol, which is told of changes before it asks for a list."""
    import mcp_types as t

    async def arrived(ctx: ServerRequestContext[Any], params: t.NotificationParams) -> None:
        remember(ctx)

    server.add_notification_handler("notifications/initialized", t.NotificationParams, arrived)


def resource_handlers(library: ResourceSource) -> dict[str, Any]:
    """Arguments for the SDK's server, by which resources are listed and read."""
    import mcp_types as t
    from mcp.shared.exceptions import MCPError

    async def listed(ctx: ServerRequestContext[Any], params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(
            resources=[
                t.Resource(uri=entry.uri, name=entry.name, title=entry.title, mime_type=entry.mime_type)
                for entry in await library.resources()
            ]
        )

    async def templates(ctx: ServerRequestContext[Any], params: Any) -> t.ListResourceTemplatesResult:
        template = t.ResourceTemplate(uri_template=library.template, name="conversation", mime_type="application/json")
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def read(ctx: ServerRequestContext[Any], params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        uri = str(params.uri)
        try:
            text = await library.read(uri)
        except TertuliaError as error:
            number = _INVALID_PARAMS if ctx.protocol_version >= MODERN else _NOT_FOUND
            raise MCPError(number, error.message, {"uri": uri}) from None
        return t.ReadResourceResult(
            contents=[t.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)]
        )

    return {"on_list_resources": listed, "on_list_resource_templates": templates, "on_read_resource": read}


class LatestOnlySender:
    """Sends one message at a time; of those that come meanwhile only the latest is sent."""

    __slots__ = ("_name", "_next", "_spawn", "_task")

    def __init__(self, spawn: Spawn, name: str) -> None:
        self._spawn = spawn
        self._name = name
        self._next: Send | None = None
        self._task: asyncio.Task[Any] | None = None

    def send(self, send: Send) -> None:
        """Send this, now or after the message in progress, unless a later one replaces it."""
        self._next = send
        if self._task is None or self._task.done():
            self._task = self._spawn(self._run(), self._name)

    def close(self) -> None:
        """Cancel the message in progress, and send no more."""
        self._next = None
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while (send := self._next) is not None:
            self._next = None
            await send()


class ListNotice(NamedTuple):
    """How clients are told that a list has changed."""

    event: ServerEvent
    """Published for subscribers of the new protocol."""
    send: NotifyClient
    """Tells a client of the old one."""


class ListChangedSubscribers:
    """The clients to tell when one list changes."""

    def __init__(self, spawn: Spawn, bus: SubscriptionBus, notice: ListNotice) -> None:
        self._spawn = spawn
        self._bus = bus
        self._notice = notice
        self._subscribers = self._sender()
        # By connection: the SDK makes a session for every request, and none of them lasts by itself.
        self._clients: OrderedDict[Hashable, tuple[ServerSession, LatestOnlySender]] = OrderedDict()

    def remember(self, ctx: ServerRequestContext[Any]) -> None:
        """Tell this client of changes: it may have the list. Clients of the new protocol subscribe themselves."""
        if ctx.protocol_version >= MODERN:
            return
        connection = connection_of(ctx)
        _, sender = self._clients.pop(connection, (None, None))
        self._clients[connection] = (ctx.session, sender or self._sender())
        if len(self._clients) > MAX_LISTENERS:
            self._clients.popitem(last=False)[1][1].close()

    def forget(self, connection: Hashable) -> None:
        """The connection is closed: tell it no more."""
        _, sender = self._clients.pop(connection, (None, None))
        if sender is not None:
            sender.close()

    def tell(self) -> None:
        """Tell the clients soon, and once for all changes until then."""
        self._subscribers.send(partial(self._send_with_pause, partial(self._bus.publish, self._notice.event)))
        for session, sender in self._clients.values():
            # Has no effect on a client that is gone.
            sender.send(partial(self._send_with_pause, partial(self._notice.send, session)))

    def close(self) -> None:
        """Tell the clients no more."""
        self._subscribers.close()
        for _, sender in self._clients.values():
            sender.close()
        self._clients.clear()

    def _sender(self) -> LatestOnlySender:
        return LatestOnlySender(self._spawn, "tell a client that a list has changed")

    async def _send_with_pause(self, send: Callable[[], Awaitable[None]]) -> None:
        await send()
        await asyncio.sleep(NOTICE_INTERVAL_S)
