"""The SDK's server, which promises what we keep: word of lists that are others, over every transport, and no more.

Left to itself it promises nothing over HTTP in the old era, and in the new one word of single resources too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import NotificationOptions, Server
    from mcp.server.subscriptions import ListenHandler


def promising_server(listening: ListenHandler, *, resources: bool, **fields: Any) -> Server[Any]:
    """`resources`: whether there is a list of them. `fields`: for the SDK's own."""
    import mcp_types as t
    from mcp.server.lowlevel import NotificationOptions, Server

    announced = NotificationOptions(tools_changed=True, resources_changed=resources)

    class Promising(Server[Any]):
        def create_initialization_options(
            self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
        ) -> Any:
            return super().create_initialization_options(notification_options or announced, *more, **named)

        def get_capabilities(self, *options: Any, **named: Any) -> t.ServerCapabilities:
            found = super().get_capabilities(*options, **named)
            if found.resources is not None:
                found.resources.subscribe = False
            return found

    async def listen(
        ctx: ServerRequestContext[Any], params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        wanted = params.notifications
        kept = t.SubscriptionFilter(
            tools_list_changed=wanted.tools_list_changed,
            resources_list_changed=wanted.resources_list_changed if resources else None,
        )
        return await listening(ctx, params.model_copy(update={"notifications": kept}))

    return Promising(on_subscriptions_listen=listen, **fields)


def on_arrival(server: Server[Any], remember: Callable[[ServerRequestContext[Any]], None]) -> None:
    """Of a client of the old era: it may be told of changes before it has asked for any list."""
    import mcp_types as t

    async def arrived(ctx: ServerRequestContext[Any], params: t.NotificationParams) -> None:
        remember(ctx)

    server.add_notification_handler("notifications/initialized", t.NotificationParams, arrived)
