"""Tells MCP clients that a resource they have subscribed to has changed, in both eras of the protocol.

A client of the old era subscribes by a request for each resource, one of the new era names them where it listens. Many
changes in a short time are one notice, and a client that does not read delays no other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tertulia.errors import LimitError, TertuliaError
from tertulia.mcp.serve.sdk_server import (
    MAX_LISTENERS,
    MAX_SUBSCRIPTIONS,
    NOTICE_INTERVAL_S,
    LatestOnlySender,
    connection_of,
)
from tertulia.mcp.serve.sources import ResourceSource
from tertulia.mcp.server_connection import MODERN, Spawn

if TYPE_CHECKING:
    import mcp_types as t
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import SubscriptionBus

_NOT_FOUND, _INVALID_PARAMS = -32002, -32602
_Clients = OrderedDict[Hashable, dict[str, tuple["ServerSession", LatestOnlySender]]]


class ResourceSubscribers:
    """The clients to tell when one of their resources changes. Nothing is watched while there is none."""

    def __init__(self, spawn: Spawn, bus: SubscriptionBus, library: ResourceSource) -> None:
        self._spawn = spawn
        self._bus = bus
        self._library = library
        self._clients: _Clients = OrderedDict()
        self._listened: Counter[str] = Counter()
        self._publishers: dict[str, LatestOnlySender] = {}
        self._unwatch: Callable[[], None] | None = None

    def handlers(self) -> dict[str, Any]:
        """Arguments for the SDK's server, by which clients of the old era subscribe."""
        import mcp_types as t
        from mcp.shared.exceptions import MCPError

        async def subscribe(ctx: ServerRequestContext[Any], params: t.SubscribeRequestParams) -> t.EmptyResult:
            uri = str(params.uri)
            try:
                await self._library.check(uri)
                self._subscribe(ctx, uri)
            except TertuliaError as error:
                is_limit = isinstance(error, LimitError) or ctx.protocol_version >= MODERN
                raise MCPError(_INVALID_PARAMS if is_limit else _NOT_FOUND, error.message, {"uri": uri}) from None
            return t.EmptyResult()

        async def unsubscribe(ctx: ServerRequestContext[Any], params: t.UnsubscribeRequestParams) -> t.EmptyResult:
            _, sender = self._clients.get(connection_of(ctx), {}).pop(str(params.uri), (None, None))
            if sender is not None:
                sender.close()
            self._stop_if_idle()
            return t.EmptyResult()

        return {"on_subscribe_resource": subscribe, "on_unsubscribe_resource": unsubscribe}

    @contextmanager
    def listening(self, uris: Iterable[str]) -> Generator[None]:
        """Publish changes of these inside the block, to a client of the new era that listens."""
        own = Counter(set(uris))
        self._listened.update(own)
        self._begin()
        try:
            yield
        finally:
            self._listened -= own
            self._stop_if_idle()

    def forget(self, connection: Hashable) -> None:
        """The connection is closed: tell it no more."""
        for _, sender in self._clients.pop(connection, {}).values():
            sender.close()
        self._stop_if_idle()

    def close(self) -> None:
        """Tell the clients no more."""
        for connection in list(self._clients):
            self.forget(connection)
        self._listened.clear()
        self._stop_if_idle()

    def _subscribe(self, ctx: ServerRequestContext[Any], uri: str) -> None:
        connection = connection_of(ctx)
        resources = self._clients.setdefault(connection, {})
        self._clients.move_to_end(connection)
        if uri not in resources and len(resources) >= MAX_SUBSCRIPTIONS:
            raise LimitError(f"a client may subscribe to {MAX_SUBSCRIPTIONS} resources; give one up first")
        _, sender = resources.get(uri, (None, None))
        resources[uri] = (ctx.session, sender or self._sender())
        if len(self._clients) > MAX_LISTENERS:
            self.forget(next(iter(self._clients)))
        self._begin()

    def _begin(self) -> None:
        if self._unwatch is None and (self._clients or self._listened):
            self._unwatch = self._library.watch_content(self._tell)

    def _stop_if_idle(self) -> None:
        if self._unwatch is not None and not self._listened and not any(self._clients.values()):
            self._unwatch()
            self._unwatch = None
            for publisher in self._publishers.values():
                publisher.close()
            self._publishers.clear()

    def _tell(self, uri: str) -> None:
        """Tell the clients soon, and once for all changes until then."""
        from mcp.server.subscriptions import ResourceUpdated

        if self._listened[uri]:
            publisher = self._publishers.setdefault(uri, self._sender())
            publisher.send(partial(self._send, partial(self._bus.publish, ResourceUpdated(uri))))
        for resources in list(self._clients.values()):
            session, sender = resources.get(uri, (None, None))
            if session is not None and sender is not None:
                sender.send(partial(self._send, partial(session.send_resource_updated, uri)))

    def _sender(self) -> LatestOnlySender:
        return LatestOnlySender(self._spawn, "tell a client that a resource has changed")

    async def _send(self, send: Callable[[], Any]) -> None:
        await send()
        await asyncio.sleep(NOTICE_INTERVAL_S)
