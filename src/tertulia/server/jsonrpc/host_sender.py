"""Sends one client what becomes of the sessions of a host, as notifications `host_event`."""

from __future__ import annotations

import msgspec

from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.peer import encode_notification
from tertulia.session.host_feed.feed import HostSubscription


class HostSender:
    """Sends as fast as the client takes it; of each session only what is newest."""

    def __init__(self, subscription: HostSubscription, sink: Sink) -> None:
        self._subscription = subscription
        self._sink = sink

    async def run(self) -> None:
        """Send until it is closed."""
        try:
            while await self._subscription.wait():
                await self._sink.drain()
                events = self._subscription.take()
                self._sink.send([encode_notification("host_event", msgspec.to_builtins(event)) for event in events])
        finally:
            self._subscription.close()

    def close(self) -> None:
        """Send nothing more. Calling it twice has no effect."""
        self._subscription.close()
