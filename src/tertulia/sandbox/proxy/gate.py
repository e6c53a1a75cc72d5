"""The interface between the proxy and those who decide which hosts a command reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Literal, Protocol

import msgspec

from tertulia.policy.hosts import Address, HostName
from tertulia.sandbox.mounts.entries import PROXY_PORT

_PROXY = f"127.0.0.1:{PROXY_PORT}"
_VARIABLES = {
    "http_proxy": f"http://{_PROXY}",
    "https_proxy": f"http://{_PROXY}",
    "all_proxy": f"socks5h://{_PROXY}",
    "no_proxy": "localhost,127.0.0.1,::1",
}
PROXY_VARIABLES = _VARIABLES | {name.upper(): value for name, value in _VARIABLES.items()}
"""By which programs find the proxy. What a command serves to itself it reaches without it."""


class HostRefusedError(Exception):
    """A connection is not made; its text is one sentence for the command."""


class UnreachableError(Exception):
    """A host is allowed and does not answer; its text is one sentence for the command."""


class BudgetSpentError(Exception):
    """A connection ends, because the conversation has used what it may."""


class NetworkLimits(msgspec.Struct, frozen=True):
    """What a conversation may use; None is no limit."""

    connections: int | None = 64
    """How many may be open at once."""
    bytes: int | None = None
    """Sent and received, in all."""
    connection_s: float | None = None
    """How long one connection may last."""


class NetworkUse:
    """What the commands of one conversation have used so far."""

    __slots__ = ("bytes", "connections")

    def __init__(self) -> None:
        self.bytes = 0
        self.connections = 0


AccessVerdict = Literal["allowed", "refused", "failed"]
"""Whether a host was reached, was not to be, or did not answer."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A connection that was made or refused."""

    host: str
    port: int
    verdict: AccessVerdict
    because: str
    bytes: int = 0
    """Both that were sent and that were received."""


class HostGate(Protocol):
    """Decides for one command, and hears what became of each connection."""

    @property
    def limits(self) -> NetworkLimits:
        """What its conversation may use."""
        ...

    @property
    def asked_s(self) -> float:
        """How long persons were asked so far."""
        ...

    @property
    def refusals(self) -> Iterable[str]:
        """Sentences about hosts that were refused."""
        ...

    @property
    def use(self) -> NetworkUse:
        """What its conversation has used; shared by all its commands."""
        ...

    async def admit(self, host: HostName, port: int) -> tuple[tuple[Address, ...], str]:
        """The addresses to connect to, each of them checked, and why; HostRefused. It may wait for a person."""
        ...

    def tell(self, access: Access) -> None:
        """A connection has ended, or was refused."""
        ...

    def finish(self) -> None:
        """The command has ended, and all its connections with it."""
        ...

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run it; the caller cancels it at the end of the command."""
        ...
