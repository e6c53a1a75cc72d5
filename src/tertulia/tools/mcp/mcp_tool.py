"""A tool of an MCP server, as one conversation calls it.

Everything that a list of tools promises is checked once more at the call: that the conversation may see the tool, and
that it still is what it was when it was shown.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from tertulia.errors import McpError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.limiter import FairLimiter
from tertulia.mcp.pool.session_server import CurrentTool
from tertulia.mcp.pool.session_servers import ConversationServers
from tertulia.mcp.server_connection import Caller, CallResult
from tertulia.mcp.view import allows, withheld_error
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.protocol.events import BackgroundEvent, EventData
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import Part, TextPart
from tertulia.protocol.tool_events import (
    Decider,
    McpToolCallBegin,
    McpToolCallEnd,
    McpToolCallProgress,
    McpToolsChanged,
)
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.mcp.call_approval import approve_call, only_reads
from tertulia.tools.output import MAX_OUTPUT_BYTES, bound
from tertulia.tools.tool import CallContext, Result

_MAX_COMPARED = 64 * 1024
"""Characters of a text that is read to see whether it says what the structured content says."""


def result_of(answer: CallResult, max_bytes: int | None) -> Result:
    """Bounded here, because only the answer knows how long the text was before it came."""
    written = None if answer.structured is None else _written(answer.structured)
    if not answer.text and written is not None:
        text, total, rest = written, None, None
    else:
        text, total = answer.text, answer.total_bytes
        rest = None if written is None or _says(answer.text, answer.structured) else written
    room = MAX_OUTPUT_BYTES if max_bytes is None else max_bytes
    short = bound(text, room, total_bytes=total)
    parts: tuple[Part, ...] = answer.parts if rest is None else (TextPart(rest), *answer.parts)
    # Half of a structure is none.
    structured = None if written is None or len(written.encode()) > room else answer.structured
    return Result(
        short.text, success=not answer.is_error, parts=parts, truncated=short.truncated, structured=structured
    )


def _written(structured: Any) -> str:
    try:
        return msgspec.json.encode(structured).decode()
    except (TypeError, ValueError, RecursionError) as error:
        return f"[structured content that cannot be written as JSON: {error}]"


def _says(text: str, structured: Any) -> bool:
    """Whether the text is the same once more, as servers are told to send it."""
    if len(text) > _MAX_COMPARED:
        # A server that sends so much has hardly two different things to say.
        return True
    forms = [structured]
    if isinstance(structured, dict) and list(cast(dict[str, Any], structured)) == ["result"]:
        # How servers wrap what is not an object.
        forms.append(structured["result"])
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        said = text
    return any(form in (text, said) or _lines(form) == text for form in forms)


def _lines(value: Any) -> str | None:
    """A list as texts of their own, one below another."""
    if not isinstance(value, list):
        return None
    each = cast(list[Any], value)
    return "\n".join(one if isinstance(one, str) else _written(one) for one in each)


class CallerFactory(Protocol):
    """Lets a server ask the client or the model in the name of a call."""

    def caller(self, definition: ServerDefinition, call: CallContext) -> Caller:
        """How this server can ask back while this call lasts."""
        ...


class McpTool:
    """Made for a definition as a view has pinned it. Keeps nothing from one call to the next."""

    __slots__ = ("_asker", "_desk", "_limiter", "_servers", "_timeout_s", "spec")

    def __init__(
        self,
        spec: ToolSpec,
        servers: ConversationServers,
        desk: ApprovalQueue,
        limiter: FairLimiter,
        asker: CallerFactory,
        timeout_s: float,
    ) -> None:
        self.spec = spec
        self._servers = servers
        self._desk = desk
        self._limiter = limiter
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
            allowed_by = await approve_call(self._desk, current, arguments, call)
            async with self._limiter.passage(
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

    def _known(self) -> CurrentTool | None:
        try:
            return self._servers.current(self.spec)
        except McpError:
            return None

    def _current(self, call: CallContext) -> CurrentTool:
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
            raise withheld_error(spec.name)
        return current

    async def _call(
        self, current: CurrentTool, arguments: dict[str, Any], call: CallContext, allowed_by: Decider
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


INTERVAL_S = 0.1
"""Between two events of one call; of what comes meanwhile the last is told."""
MAX_MESSAGE_BYTES = 1_000


class ProgressReport:
    """The progress of one call. After `close` nothing is told any more."""

    __slots__ = ("_call", "_closed", "_count", "_held", "_item_id", "_pause")

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._item_id = new_item_id()
        self._count = 0
        self._held: tuple[float, float | None, str | None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Is told by the server, as often as it likes."""
        if self._closed or not math.isfinite(progress):
            return
        self._held = (progress, total if total is None or math.isfinite(total) else None, message)
        if self._pause is None:
            self._tell()

    def close(self) -> None:
        """The call is over."""
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()

    def _tell(self) -> None:
        self._pause = None
        if self._held is None:
            return
        self._pause = asyncio.get_running_loop().call_later(INTERVAL_S, self._tell)
        event, self._held = self._event(*self._held), None
        self._count += 1
        # A task that is over has nothing to say; that is no trouble of the server's.
        with suppress(asyncio.CancelledError):
            self._call.publish(event)

    def _event(self, progress: float, total: float | None, message: str | None) -> EventData:
        return McpToolCallProgress(
            call_id=self._call.call_id,
            progress=float(progress),
            total=None if total is None else float(total),
            message=None if message is None else bound(message, MAX_MESSAGE_BYTES).text,
            item_id=self._item_id,
            offset=self._count,
        )
