"""The SDK's server, set up to announce changes of lists over every transport, and no other subscriptions.

By default the SDK announces none over HTTP in the old protocol, and in the new one those of single resources too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tertulia.errors import TertuliaError
from tertulia.mcp.serve.sources import ResourceSource
from tertulia.mcp.server_connection import MODERN

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import NotificationOptions, Server
    from mcp.server.subscriptions import ListenHandler


def make_sdk_server(listening: ListenHandler, *, resources: bool, **fields: Any) -> Server[Any]:
    """The SDK's server with our capabilities. `resources`: whether they are served. `fields`: its own arguments."""
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
                capabilities.resources.subscribe = False
            return capabilities

    async def listen(
        ctx: ServerRequestContext[Any], params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        requested = params.notifications
        supported = t.SubscriptionFilter(
            tools_list_changed=requested.tools_list_changed,
            resources_list_changed=requested.resources_list_changed if resources else None,
        )
        return await listening(ctx, params.model_copy(update={"notifications": supported}))

    return AnnouncingServer(on_subscriptions_listen=listen, **fields)


def on_client_initialized(server: Server[Any], remember: Callable[[ServerRequestContext[Any]], None]) -> None:
    """Call `remember` for each client of the old protocol, which is told of changes before it asks for a list."""
    import mcp_types as t

    async def arrived(ctx: ServerRequestContext[Any], params: t.NotificationParams) -> None:
        remember(ctx)

    server.add_notification_handler("notifications/initialized", t.NotificationParams, arrived)


_INVALID_PARAMS = -32602
_NOT_FOUND = -32002
"""The code of the old protocol; the new one has none of its own for it."""


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
