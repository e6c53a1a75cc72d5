"""A typed client of Tertulia: over WebSocket to `tertulia serve`, or over standard streams to `tertulia app-server`."""

from tertulia_client.client import Client, ConnectionClosedError, RpcError, connect, start
from tertulia_client.protocol import AnyEvent

__all__ = ["AnyEvent", "Client", "ConnectionClosedError", "RpcError", "connect", "start"]
