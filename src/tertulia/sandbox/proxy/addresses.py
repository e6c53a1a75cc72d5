"""From a host to the addresses that a connection is made to: looked up here, checked, and then not looked up again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address

from tertulia.policy.host_rules import HostRules
from tertulia.policy.hosts import Address, HostName, is_public, plain_address
from tertulia.sandbox.proxy.gate import HostRefusedError, UnreachableError

LOOKUP_S = 15.0
CONNECT_S = 20.0
_MOST_ADDRESSES = 4
_LOOKUPS_AT_ONCE = 8

LookUp = Callable[[str, int], Awaitable[Sequence[Address]]]
"""The addresses of a name; OSError where it has none."""


@cache
def _threads() -> ThreadPoolExecutor:
    # Of its own: names that take long to look up must not keep other work of this process waiting.
    return ThreadPoolExecutor(_LOOKUPS_AT_ONCE, "name-lookup")


async def look_up(name: str, port: int) -> list[Address]:
    """As this machine looks names up."""
    loop = asyncio.get_running_loop()
    # With the dot at its end: a search list of this machine must not make another name of it.
    found = await loop.run_in_executor(_threads(), _getaddrinfo, f"{name}." if "." in name else name, port)
    return [plain_address(ip_address(address)) for address in found]


def _getaddrinfo(name: str, port: int) -> list[str]:
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


async def checked_addresses(
    host: HostName, port: int, rules: HostRules, names: LookUp = look_up
) -> tuple[Address, ...]:
    """Those that may be connected to. HostRefused where there are none, Unreachable where it has no address.

    An address that is not public must be allowed itself, by a list that names it.
    """
    if host.address is not None:
        return (host.address,)
    try:
        async with asyncio.timeout(LOOKUP_S):
            found = await names(host.name, port)
    except (TimeoutError, OSError, ValueError):
        raise UnreachableError(f"{host.name} has no address that can be found") from None
    fit = [address for address in found if _may_reach(address, port, rules)][:_MOST_ADDRESSES]
    if fit:
        return tuple(fit)
    if not found:
        raise UnreachableError(f"{host.name} has no address")
    raise HostRefusedError(
        f"{host.name} is at {found[0]}, which is denied or no address of the internet; to allow it, add that address "
        f"with the port {port} to network.allow as well"
    )


def _may_reach(address: Address, port: int, rules: HostRules) -> bool:
    verdict = rules.verdict(HostName(str(address), address), port)
    return verdict == "allowed" or (verdict == "unlisted" and is_public(address))


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(addresses: Sequence[Address], port: int, limit: int) -> Streams:
    """A connection to the first of them that answers; Unreachable where none does."""
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(str(address), port, limit=limit)
        except OSError:
            # TimeoutError is one as well. The next one may answer.
            continue
    raise UnreachableError(f"nothing answers at {addresses[0]}, port {port}")
