"""A gate that decides by a list alone: no person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tertulia.policy.host_rules import HostRules
from tertulia.policy.hosts import Address, HostName
from tertulia.sandbox.proxy.addresses import LookUp, checked_addresses, look_up
from tertulia.sandbox.proxy.gate import Access, HostRefusedError, NetworkLimits, NetworkUse

Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


def way_to_allow(host: HostName, port: int) -> str:
    """The end of a refusal: what the user can do."""
    name = f"[{host.name}]" if ":" in host.name else host.name
    pattern = host.name if port in (80, 443) else f"{name}:{port}"
    return f'to allow it, add "{pattern}" to network.allow in the settings'


class RulesGate:
    """Implements `HostGate` by a list."""

    def __init__(
        self,
        rules: HostRules,
        start: Start,
        *,
        limits: NetworkLimits | None = None,
        use: NetworkUse | None = None,
        names: LookUp = look_up,
        on_access: Callable[[Access], object] = id,
    ) -> None:
        """`names` looks names up; `on_access` is called with what became of each connection."""
        self._start, self._on_access = start, on_access
        self.asked_s = 0.0
        self.refusals: tuple[str, ...] = ()
        self.limits = limits or NetworkLimits()
        self.use = use or NetworkUse()
        self._rules, self._names = rules, names

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """As the maker of this gate does it."""
        return self._start(work, name)

    def tell(self, access: Access) -> None:
        """Pass it on to the maker of this gate."""
        self._on_access(access)

    def finish(self) -> None:
        """Nothing is left to be told."""

    async def admit(self, host: HostName, port: int) -> tuple[tuple[Address, ...], str]:
        """Allowed only where the list does."""
        verdict = self._rules.verdict(host, port)
        if verdict == "denied":
            raise HostRefusedError(f"{host.name}:{port} is denied by network.deny")
        if verdict == "unlisted":
            raise HostRefusedError(f"{host.name}:{port} is not allowed here; {way_to_allow(host, port)}")
        return await checked_addresses(host, port, self._rules, self._names), "network.allow"
