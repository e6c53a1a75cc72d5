"""A tool of an MCP server, as one conversation calls it; and whether a call runs, needs an approval, or is refused.

Both are checked again at the call: that the conversation may see the tool, and that its definition is still the one
that was shown. A server runs outside the conversation's sandbox. Its hints about its tools count only where the user
configured it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from tertulia.errors import McpError, NoApproverError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.pool.session_server import CurrentTool
from tertulia.mcp.pool.session_servers import SessionServers
from tertulia.mcp.rate_limiter import FairLimiter
from tertulia.mcp.server_connection import Caller, CallResult
from tertulia.mcp.view import allows, withheld_error
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.approvals.approval_request import (
    ApprovalParts,
    GrantSubject,
    RequestedAction,
    as_one_line,
    with_label,
)
from tertulia.policy.rights import Rights
from tertulia.protocol.events import BackgroundEvent, EventData
from tertulia.protocol.ids import ConversationId, new_item_id
from tertulia.protocol.items import Part, TextPart
from tertulia.protocol.tool_events import (
    Decider,
    McpToolCallBegin,
    McpToolCallEnd,
    McpToolCallProgress,
    McpToolsChanged,
)
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.output_truncation import MAX_OUTPUT_BYTES, bound
from tertulia.tools.tool import CallContext, Result

INTERVAL_S = 0.1
"""Between two progress events of one call; of the progress in between only the last is published."""
MAX_MESSAGE_BYTES = 1_000
"""Of the message of one progress event."""
_MAX_COMPARED = 64 * 1024
"""Characters of a text that is compared with the structured content."""
_BELIEVED = ("user", "code")
"""The hints of servers of these origins count."""
_canonical = msgspec.json.Encoder(order="deterministic", enc_hook=dict)


def result_of(answer: CallResult, max_bytes: int | None) -> Result:
    """The result for the model. Bounded here, because only the answer knows the original length of the text."""
    encoded = None if answer.structured is None else _encoded(answer.structured)
    if not answer.text and encoded is not None:
        text, total, rest = encoded, None, None
    else:
        text, total = answer.text, answer.total_bytes
        rest = None if encoded is None or _says(answer.text, answer.structured) else encoded
    room = MAX_OUTPUT_BYTES if max_bytes is None else max_bytes
    short = bound(text, room, total_bytes=total)
    parts: tuple[Part, ...] = answer.parts if rest is None else (TextPart(rest), *answer.parts)
    # A structure that was cut cannot be used.
    structured = None if encoded is None or len(encoded.encode()) > room else answer.structured
    return Result(
        short.text, success=not answer.is_error, parts=parts, truncated=short.truncated, structured=structured
    )


def _encoded(structured: Any) -> str:
    try:
        return msgspec.json.encode(structured).decode()
    except (TypeError, ValueError, RecursionError):
        return "[structured content that cannot be written as JSON]"


def _says(text: str, structured: Any) -> bool:
    """Whether the text repeats the structured content, as the protocol recommends."""
    if len(text) > _MAX_COMPARED:
        # A longer text is not compared, and counts as the same content.
        return True
    forms = [structured]
    if isinstance(structured, dict) and list(cast(dict[str, Any], structured)) == ["result"]:
        # Servers wrap a value that is no object like this.
        forms.append(structured["result"])
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        decoded = text
    return any(form in (text, decoded) or _lines(form) == text for form in forms)


def _lines(value: Any) -> str | None:
    """A list as lines of text, one for each item."""
    if not isinstance(value, list):
        return None
    items = cast(list[Any], value)
    return "\n".join(item if isinstance(item, str) else _encoded(item) for item in items)


class CallerFactory(Protocol):
    """Lets a server ask the client or the model in the name of a call."""

    def caller(self, definition: ServerDefinition, call: CallContext) -> Caller:
        """How this server can ask back while this call lasts."""
        ...


class McpCallServices(msgspec.Struct, frozen=True):
    """What the calls of all tools of MCP servers use."""

    servers: SessionServers
    approvals: ApprovalQueue
    limiter: FairLimiter
    asker: CallerFactory
    timeout_s: float


class McpTool:
    """A tool with the definition that a view has shown. It has no state between calls."""

    __slots__ = ("_conversation", "_services", "spec")

    def __init__(self, spec: ToolSpec, conversation: ConversationId, services: McpCallServices) -> None:
        self.spec = spec
        self._conversation = conversation
        self._services = services

    @property
    def parallel_safe(self) -> bool:
        """Whether the server's configuration allows parallel calls."""
        current = self._current_or_none()
        return current is not None and current.definition.parallel

    @property
    def read_only(self) -> bool:
        """Whether the tool changes nothing, by a hint that counts."""
        current = self._current_or_none()
        return current is not None and only_reads(current)

    @property
    def retry_safe(self) -> bool:
        """Whether a second call does no more than the first, by a hint that counts."""
        current = self._current_or_none()
        return current is not None and current.tool.hints.idempotent and current.definition.origin in _BELIEVED

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a tool that this conversation, or one that waits for it, may not see, or whose definition changed."""
        self._current(call)

    async def run(self, arguments: Any, call: CallContext) -> Result:
        """Ask for an approval if needed, wait for the limiter, call the server."""
        current = self._current(call)
        definition = current.definition
        # The call has a time limit of its own, which is suspended while the server asks the user.
        with call.unhurried():
            allowed_by = await approve_call(self._services.approvals, current, arguments, call)
            async with self._services.limiter.admit(
                call.conversation_id,
                definition.name,
                call.rights.limits,
                server_concurrency=definition.concurrency,
                shared=current.shared,
                program=call.program,
                waits=lambda why: call.publish(BackgroundEvent(f"{self.spec.name} waits for its turn: {why}")),
            ):
                # The approval may have taken minutes, and it was given for this definition only.
                if self._current(call).definition != definition:
                    raise McpError(f"the MCP server {definition.name} was configured again meanwhile; repeat the call")
                answer = await self._call(current, arguments, call, allowed_by)
                return result_of(answer, call.rights.limits.max_output_bytes)

    def _current_or_none(self) -> CurrentTool | None:
        try:
            return self._services.servers.current(self.spec, self._conversation)
        except McpError:
            return None

    def _current(self, call: CallContext) -> CurrentTool:
        spec = self.spec
        if not allows(call.rights.mcp_tool_allowlist, spec):
            raise McpError(
                f"{spec.name} is not in the mcp_tool_allowlist of this conversation and all that wait for it"
            )
        current = self._services.servers.current(spec, self._conversation)
        definition = current.definition
        if not definition.enabled or not definition.offers(current.tool.name):
            raise McpError(f"{spec.name} is disabled in the configuration of the MCP server {definition.name}")
        if current.digest != spec.digest:
            # Clients get the event now; the view itself is refreshed with the next task.
            call.publish(McpToolsChanged([], [], [spec.name]))
            raise withheld_error(spec.name)
        return current

    async def _call(
        self, current: CurrentTool, arguments: dict[str, Any], call: CallContext, allowed_by: Decider
    ) -> CallResult:
        definition, tool, progress = current.definition, current.tool.name, ProgressReport(call)
        caller = self._services.asker.caller(definition, call)
        limit = min(definition.tool_timeout_s, self._services.timeout_s)
        began, success = call.clock.monotonic(), False
        call.publish(McpToolCallBegin(call.call_id, definition.name, tool, allowed_by))
        try:
            answer = await self._services.servers.call(
                self.spec, arguments, caller, timeout_s=limit, on_progress=progress
            )
            success = not answer.is_error
        finally:
            progress.close()
            took = round((call.clock.monotonic() - began) * 1000)
            call.publish(McpToolCallEnd(call.call_id, definition.name, tool, success, took))
        return answer


class ProgressReport:
    """Publishes the progress of one call, until `close`."""

    __slots__ = ("_call", "_closed", "_count", "_held", "_item_id", "_pause")

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._item_id = new_item_id()
        self._count = 0
        self._held: tuple[float, float | None, str | None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take progress of the server, however often it comes."""
        if self._closed or not math.isfinite(progress):
            return
        self._held = (progress, total if total is None or math.isfinite(total) else None, message)
        if self._pause is None:
            self._publish()

    def close(self) -> None:
        """The call is over: publish no more."""
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()

    def _publish(self) -> None:
        self._pause = None
        if self._held is None:
            return
        self._pause = asyncio.get_running_loop().call_later(INTERVAL_S, self._publish)
        event, self._held = self._event(*self._held), None
        self._count += 1
        # The task may be over; that is no error of the server.
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


def only_reads(current: CurrentTool) -> bool:
    """Whether the tool changes nothing, by a hint that counts."""
    return current.tool.hints.read_only and current.definition.origin in _BELIEVED


def runs_unasked(current: CurrentTool, rights: Rights) -> bool:
    """By the server's `approval`; but under read_only a server that may do more always needs an approval."""
    definition = current.definition
    if _may_do_more(definition, rights):
        return False
    match definition.approval:
        case "approve":
            return True
        case "prompt":
            return False
        case "auto":
            return only_reads(current)


async def approve_call(
    approvals: ApprovalQueue, current: CurrentTool, arguments: dict[str, Any], call: CallContext
) -> Decider:
    """What allows the call. ApprovalDeniedError where it may not be made, NoApproverError without an approver."""
    definition = current.definition
    if runs_unasked(current, call.rights):
        return Decider("policy", f'mcp_servers.{definition.name}.approval = "{definition.approval}"')
    try:
        granted = await approvals.ask(
            approval_request(current, arguments, call), call.rights.approval_policy, call.publish
        )
        return granted.decider
    except NoApproverError as error:
        raise NoApproverError(f"{error.message}; {_way_out(current.definition, call.rights)}") from None


def approval_request(current: CurrentTool, arguments: dict[str, Any], call: CallContext) -> RequestedAction:
    """The approval request. A grant holds for the same tool, defined the same way, with the same arguments."""
    definition, tool = current.definition, current.tool
    encoded = json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    readable = json.dumps(arguments, sort_keys=True, ensure_ascii=False, indent=2)
    confinement = _confinement(definition)
    return RequestedAction(
        kind="mcp",
        conversation_id=call.conversation_id,
        chain=call.chain.callers,
        call_id=call.call_id,
        title=f"call {tool.name} of the MCP server {definition.name}",
        detail=f"{with_label('arguments', readable)}\n{_claims(current)}",
        subject=GrantSubject(
            (definition.name, tool.name, current.digest, encoded),
            call.cwd,
            f"MCP server {definition.name}, definition {_digest(definition)}",
            confinement,
        ),
        parts=ApprovalParts(
            cwd=call.cwd, sandbox=confinement, server=definition.name, tool=tool.name, arguments=readable
        ),
    )


def _may_do_more(definition: ServerDefinition, rights: Rights) -> bool:
    return rights.sandbox == "read_only" and definition.sandbox != "read_only"


def _way_out(definition: ServerDefinition, rights: Rights) -> str:
    table = f"[mcp_servers.{definition.name}]"
    if _may_do_more(definition, rights):
        return (
            f"in a read-only sandbox `{table} approval` does not count, unless the server is confined itself: "
            f'`{table} sandbox = "read-only"`'
        )
    return f'`{table} approval = "approve"` in the configuration lets its tools run unasked'


def _claims(current: CurrentTool) -> str:
    """What the server says the tool does, which is not verified."""
    hints = current.tool.hints
    kind = "only reads" if hints.read_only else "may destroy" if hints.destructive else "changes, and destroys nothing"
    source = current.definition.source
    named = f", named in {as_one_line(source)}" if source and current.definition.origin == "project" else ""
    return f"(the server says that it {kind}; it runs {_confinement(current.definition)}{named})"


def _confinement(definition: ServerDefinition) -> str:
    if definition.sandbox is None:
        return "outside any sandbox"
    return f"in a sandbox of its own: {definition.sandbox}, network {'on' if definition.network else 'off'}"


def _digest(definition: ServerDefinition) -> str:
    return hashlib.sha256(_canonical.encode(definition)).hexdigest()
