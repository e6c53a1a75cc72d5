"""A tool of an MCP server, as one conversation calls it.

Everything that a list of tools promises is checked once more at the call: that the conversation may see the tool, and
that it still is what it was when it was shown.
"""

from __future__ import annotations

from typing import Any

from tertulia.errors import McpError
from tertulia.mcp.limiter import FairLimiter
from tertulia.mcp.server_connection import CallResult
from tertulia.mcp.view import allows
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.protocol.events import BackgroundEvent
from tertulia.protocol.tool_events import Decider, McpToolCallBegin, McpToolCallEnd, McpToolsChanged
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.remote import Asker, Current, Servers, withheld
from tertulia.tools.remote_answer import result_of
from tertulia.tools.remote_consent import consent, only_reads
from tertulia.tools.remote_progress import ProgressReport
from tertulia.tools.tool import CallContext, Result


class McpTool:
    """Made for a definition as a view has pinned it. Keeps nothing from one call to the next."""

    __slots__ = ("_asker", "_desk", "_servers", "_timeout_s", "_turnstile", "spec")

    def __init__(
        self,
        spec: ToolSpec,
        servers: Servers,
        desk: ApprovalQueue,
        turnstile: FairLimiter,
        asker: Asker,
        timeout_s: float,
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
        # The server has a deadline of its own, which stands still while somebody is asked back.
        with call.unhurried():
            allowed_by = await consent(self._desk, current, arguments, call)
            async with self._turnstile.passage(
                call.conversation_id,
                definition.name,
                call.rights.limits,
                server_concurrency=definition.concurrency,
                shared=current.shared,
                program=call.program,
                waits=lambda why: call.publish(BackgroundEvent(f"{self.spec.name} waits for its turn: {why}")),
            ):
                # That may have taken minutes, and what was allowed was this and nothing else.
                if self._current(call).definition != definition:
                    raise McpError(f"the MCP server {definition.name} was configured anew meanwhile; call again")
                answer = await self._call(current, arguments, call, allowed_by)
                return result_of(answer, call.rights.limits.max_output_bytes)

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
            # Whoever follows the session hears of it now: the view itself is not looked at before the next task.
            call.publish(McpToolsChanged([], [], [spec.name]))
            raise withheld(spec.name)
        return current

    async def _call(
        self, current: Current, arguments: dict[str, Any], call: CallContext, allowed_by: Decider
    ) -> CallResult:
        definition, tool, progress = current.definition, current.tool.name, ProgressReport(call)
        caller = self._asker.caller(definition, call)
        limit = min(definition.tool_timeout_s, self._timeout_s)
        began, success = call.clock.monotonic(), False
        call.publish(McpToolCallBegin(call.call_id, definition.name, tool, allowed_by))
        try:
            answer = await self._servers.call(self.spec, arguments, caller, timeout_s=limit, on_progress=progress)
            success = not answer.is_error
        finally:
            progress.close()
            took = round((call.clock.monotonic() - began) * 1000)
            call.publish(McpToolCallEnd(call.call_id, definition.name, tool, success, took))
        return answer
