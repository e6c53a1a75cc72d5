"""Decides which hosts a command of a conversation reaches: by its right to the network, and by asking a person."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from tertulia.errors import ApprovalDeniedError, BusyError, ClosedError, NoApproverError
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.approvals.approval_request import (
    GRANT_SCOPES,
    STORED_GRANT_SCOPES,
    ApprovalParts,
    GrantSubject,
    RequestedAction,
    command_text,
)
from tertulia.policy.host_rules import HostRules
from tertulia.policy.hosts import WEB_PORTS, Address, HostName, is_public
from tertulia.protocol.events import EventData
from tertulia.protocol.storage import Full
from tertulia.protocol.tool_events import NetworkAccess
from tertulia.sandbox.proxy import addresses
from tertulia.sandbox.proxy.gate import Access, HostRefusedError, NetworkLimits
from tertulia.sandbox.proxy.rules_gate import way_to_allow
from tertulia.tools.network.services import NetworkServices
from tertulia.tools.tool import CallContext

_MAX_LISTED = 64
"""Hosts of one command that events tell of, each by its name; further ones are told of together."""

_MAX_QUESTIONS = 32
"""Of one command: it could want any number of names, and each would be a question."""

_Key = tuple[str, int, str, str]


class ConversationGate:
    """Implements `HostGate` for one command, or for one call of `fetch`."""

    def __init__(
        self,
        services: NetworkServices,
        approvals: ApprovalQueue,
        rules: HostRules,
        call: CallContext,
        argv: tuple[str, ...],
    ) -> None:
        """`argv`: the command that a person is shown; empty where the call itself is what wants a host."""
        limits = call.rights.limits
        self.use = services.use(call.conversation_id)
        self.limits = NetworkLimits(
            limits.max_network_connections, limits.max_network_bytes, limits.network_connection_s
        )
        self.refusals: dict[str, None] = {}
        """Sentences about hosts that were refused, for the reader of the output."""
        self._services, self._approvals, self._rules, self._call, self._argv = services, approvals, rules, call, argv
        self._answers: dict[tuple[str, int], asyncio.Future[str]] = {}
        self._told: dict[_Key, Access | None] = {}
        """By what is the same: the connections that were not told of yet, and how many they are."""
        self._counts: dict[_Key, int] = {}
        self._open_questions = 0
        self._asking_since = self._asked_s = 0.0

    @property
    def asked_s(self) -> float:
        """How long persons were asked so far: a command does not answer for that time."""
        running = self._call.clock.monotonic() - self._asking_since if self._open_questions else 0.0
        return self._asked_s + running

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """As a task of the session."""
        return self._services.start(work, name)

    async def admit(self, host: HostName, port: int) -> tuple[tuple[Address, ...], str]:
        """By the lists, or by the answer of a person."""
        verdict = self._rules.verdict(host, port)
        if verdict == "denied":
            raise HostRefusedError(f"{host.name}:{port} is denied by network.deny")
        because = "network.allow" if verdict == "allowed" else await self._ask(host, port)
        return await addresses.checked_addresses(host, port, self._rules, addresses.look_up), because

    async def _ask(self, host: HostName, port: int) -> str:
        """Why it is allowed; HostRefused. One question a host: further connections wait for its answer."""
        key = (host.name, 0 if port in WEB_PORTS else port)
        known = self._answers.get(key)
        if known is not None:
            refusal = await asyncio.shield(known)
        elif len(self._answers) >= _MAX_QUESTIONS:
            refusal = f"{host.name}:{port} is not allowed, and {_MAX_QUESTIONS} hosts were asked about already"
        else:
            known = self._answers[key] = asyncio.get_running_loop().create_future()
            try:
                refusal = await self._refusal(host, port)
                known.set_result(refusal)
            finally:
                if not known.done():
                    del self._answers[key]
                    known.cancel()
        if refusal:
            raise HostRefusedError(refusal)
        return "approval"

    async def _refusal(self, host: HostName, port: int) -> str:
        """Why it is refused; empty where a person or a grant allows it."""
        call = self._call
        if not self._open_questions:
            self._asking_since = call.clock.monotonic()
        self._open_questions += 1
        try:
            await self._approvals.ask(self._request(host, port), call.rights.approval_policy, self._publish)
        except NoApproverError:
            return f"{host.name}:{port} is not allowed here; {way_to_allow(host, port)}"
        except (ApprovalDeniedError, BusyError, ClosedError) as error:
            return f"{host.name}:{port} is not allowed: {error.message}"
        finally:
            self._open_questions -= 1
            if not self._open_questions:
                self._asked_s += call.clock.monotonic() - self._asking_since
        return ""

    def _request(self, host: HostName, port: int) -> RequestedAction:
        call = self._call
        ports = "ports 80 and 443" if port in WEB_PORTS else f"port {port}"
        private = host.address is not None and not is_public(host.address)
        kind = "" if not private else ", an address that is not of the internet: a machine near you, or this one"
        wants = f"for this command:\n{command_text(self._argv)}" if self._argv else "for a page that the model asks for"
        return RequestedAction(
            kind="network",
            conversation_id=call.conversation_id,
            chain=call.chain.callers,
            call_id=call.call_id,
            title=f"reach {host.name}, {ports}",
            detail=f"{host.name}, {ports}{kind}\n{wants}",
            subject=GrantSubject((host.name, ports), "", "", ""),
            parts=ApprovalParts(command=self._argv, cwd=call.cwd),
            # A yes for the project is stored with the name of the host.
            scopes=STORED_GRANT_SCOPES if isinstance(call.rights.storage_policy, Full) else GRANT_SCOPES,
        )

    # ---- what is told

    def tell(self, access: Access) -> None:
        """The first of its kind at once; the rest together, when the command has ended."""
        if access.verdict != "allowed" and access.because and len(self.refusals) < _MAX_LISTED:
            self.refusals[access.because] = None
        key = (access.host, access.port, access.verdict, access.because)
        if key not in self._told and len(self._told) < _MAX_LISTED:
            self._told[key] = None
            self._publish_access(access, 1)
            return
        if key not in self._told:
            access = replace(access, host="", port=0, because="")
            key = ("", 0, access.verdict, "")
        earlier = self._told.get(key)
        self._told[key] = access if earlier is None else replace(access, bytes=access.bytes + earlier.bytes)
        self._counts[key] = self._counts.get(key, 0) + 1

    def finish(self) -> None:
        """The command has ended, and all its connections with it."""
        for key, count in self._counts.items():
            access = self._told[key]
            if access is not None:
                self._publish_access(access, count)
        self._counts.clear()

    def _publish_access(self, access: Access, connections: int) -> None:
        self._publish(
            NetworkAccess(
                host=access.host,
                port=access.port,
                verdict=access.verdict,
                because=access.because,
                bytes=access.bytes,
                connections=connections,
                call_id=self._call.call_id,
            )
        )

    def _publish(self, data: EventData) -> None:
        try:
            self._call.publish(data)
        except asyncio.CancelledError:
            # The task may end before its command.
            self._services.publish(self._call.conversation_id, data)
