"""A tool of an MCP server, as one conversation calls it.

Everything that a list of tools promises is checked once more at the call: that the conversation may see the tool, and
that it still is what it was when it was shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from tertulia.errors import McpError, Timeout
from tertulia.mcp.server import Answer, Caller
from tertulia.mcp.view import allows
from tertulia.policy.approvals import ApprovalDesk
from tertulia.policy.turnstile import Turnstile
from tertulia.protocol.events import BackgroundEvent
from tertulia.protocol.tool_events import McpToolCallBegin, McpToolCallEnd
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.remote import Asker, Current, Servers
from tertulia.tools.remote_answer import result_of
from tertulia.tools.remote_consent import consent, only_reads
from tertulia.tools.remote_progress import ProgressReport
from tertulia.tools.tool import CallContext, Result

A = TypeVar("A")
R = TypeVar("R")

_ASKED_BACK_S = 3_600.0
"""What a connection may wait longer than the call itself: our own deadline stands still while a person is asked."""


class McpTool:
    """Made for a definition as a view has pinned it. Keeps nothing from one call to the next."""

    __slots__ = ("_asker", "_desk", "_servers", "_timeout_s", "_turnstile", "spec")

    def __init__(
        self, spec: ToolSpec, servers: Servers, desk: ApprovalDesk, turnstile: Turnstile, asker: Asker, timeout_s: float
    ) -> None:
        self.spec = spec
        self._servers = servers
        self._desk = desk
        self._turnstile = turnstile
        self._asker = asker
        self._timeout_s = timeout_s

    @property
    def parallel_safe(self) -> bool:
        """What the server's configuration says."""
        current = self._known()
        return current is not None and current.definition.parallel

    @property
    def read_only(self) -> bool:
        """What the server says, where it may be believed."""
        current = self._known()
        return current is not None and only_reads(current)

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse what this conversation, or one that waits for it, may not see, and what is not what was shown."""
        self._current(call)

    async def run(self, arguments: Any, call: CallContext) -> Result:
        """Ask where it must be asked, wait for a turn, call."""
        current = self._current(call)
        definition = current.definition
        # Until the server is called nobody's time runs, and from then on the server's own.
        with call.unhurried():
            await consent(self._desk, current, arguments, call)
            async with self._turnstile.passage(
                call.conversation_id,
                definition.name,
                call.rights.limits,
                server_concurrency=definition.concurrency,
                waits=lambda why: call.publish(BackgroundEvent(f"{self.spec.name} waits for its turn: {why}")),
            ):
                # That may have taken minutes, and what was allowed was this and nothing else.
                if self._current(call).definition != definition:
                    raise McpError(f"the MCP server {definition.name} was configured anew meanwhile; call again")
                return result_of(await self._call(current, arguments, call), call.rights.limits.max_output_bytes)

    def _known(self) -> Current | None:
        try:
            return self._servers.current(self.spec)
        except McpError:
            return None

    def _current(self, call: CallContext) -> Current:
        spec = self.spec
        if not allows(call.rights.mcp_tool_allowlist, spec):
            raise McpError(
                f"{spec.name} is not in the mcp_tool_allowlist of this conversation and all that wait for it"
            )
        current = self._servers.current(spec)
        definition = current.definition
        if not definition.enabled or not definition.offers(current.tool.name):
            raise McpError(f"{spec.name} is disabled in the configuration of the MCP server {definition.name}")
        if current.digest != spec.digest:
            raise McpError(f"{spec.name} is withheld: its definition changed; call set_context with refresh_mcp_view")
        return current

    async def _call(self, current: Current, arguments: dict[str, Any], call: CallContext) -> Answer:
        definition, tool = current.definition, current.tool.name
        limit = min(definition.tool_timeout_s, self._timeout_s)
        patience, progress = _Patience(limit), ProgressReport(call)
        caller = patience.around(self._asker.caller(definition, call))
        began, success = call.clock.monotonic(), False
        call.publish(McpToolCallBegin(call_id=call.call_id, server=definition.name, tool=tool))
        try:
            async with patience.deadline:
                answer = await self._servers.call(
                    self.spec, arguments, caller, timeout_s=limit + _ASKED_BACK_S, on_progress=progress
                )
            success = not answer.is_error
        except TimeoutError:
            raise Timeout(
                f"the MCP server {definition.name} did not answer within {limit:g} s (tool_timeout_sec)"
            ) from None
        finally:
            patience.over = True
            progress.close()
            took = round((call.clock.monotonic() - began) * 1000)
            end = McpToolCallEnd(
                call_id=call.call_id, server=definition.name, tool=tool, success=success, duration_ms=took
            )
            call.publish(end)
        return answer


class _Patience:
    """The deadline of one call. It stands still while the server asks somebody back."""

    def __init__(self, limit_s: float) -> None:
        self.deadline = asyncio.timeout(limit_s)
        self.over = False
        self._asking = 0
        self._left = limit_s

    def around(self, caller: Caller) -> Caller:
        """The same, asked in no hurry."""
        return replace(caller, elicit=self._unhurried(caller.elicit), sample=self._unhurried(caller.sample))

    def _unhurried(self, ask: Callable[[A], Awaitable[R]]) -> Callable[[A], Awaitable[R]]:
        async def asked(what: A) -> R:
            with self._paused():
                return await ask(what)

        return asked

    @contextmanager
    def _paused(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        ends = self.deadline.when()
        if ends is not None:
            # None: somebody else is being asked already.
            self._left = ends - loop.time()
            self._set(None)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0:
                self._set(loop.time() + self._left)

    def _set(self, when: float | None) -> None:
        # A server may go on asking for a call that is over.
        if not self.over and not self.deadline.expired():
            self.deadline.reschedule(when)
