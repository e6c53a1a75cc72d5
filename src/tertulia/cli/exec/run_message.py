"""Sends one message to a new or stored session and follows it to its end: what `exec` does, however it is shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from tertulia.cli.output.work_lines import call_text, refusal_fields
from tertulia.cli.session_lookup import find_open_conversation
from tertulia.cli.stop_signals import on_stop_signal
from tertulia.protocol.events import (
    BackgroundEvent,
    ConversationCloseForced,
    Event,
    EventData,
    SessionConfigured,
    SubscriberLagged,
    WarningEvent,
)
from tertulia.protocol.ids import TaskId
from tertulia.protocol.inputs import InputItem, Message
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.tool_events import (
    McpServerStatus,
    McpToolsChanged,
    NetworkAccess,
    ToolCallBegin,
    ToolCallEnd,
    server_status_text,
)
from tertulia.scheduler.reply import Reply
from tertulia.server.sockets.session_sockets import reachable
from tertulia.session.answers import HistoryEntry
from tertulia.session.conversations import ROOT
from tertulia.session.handle import Conversation
from tertulia.session.session import Session

if TYPE_CHECKING:
    from tertulia.cli.exec.terminal_approver import TerminalApprover
    from tertulia.events.debug_trace import EventTrace

_SHOWN = 10

StopReason = Literal["interrupted", "timeout"]


class MessageRequest(msgspec.Struct, frozen=True):
    """One message, and to which conversation it goes."""

    items: tuple[InputItem, ...]
    """Empty: nothing is sent, and the answer is that of the task that goes on."""
    output_schema: dict[str, Any] | None = None
    as_codex: bool = False
    """Whether the schema is called as Codex calls it, and the answer taken as the model gives it."""
    timeout_s: float | None = None
    """For the whole run; None waits as long as it takes."""
    conversation_id: str = ROOT
    opens: dict[str, Any] | None = None
    """The fields of a conversation to open for the message."""
    backend: str | None = None
    """The backend that the conversation gets first; None leaves it as it is."""
    instructions: str | None = None
    """The base instructions that it gets first; None leaves them as they are."""


class MessageOutcome(msgspec.Struct, frozen=True):
    """How a run ended. There is no reply when it was stopped by a signal or --timeout."""

    status: Literal["completed", "failed", "interrupted", "timeout"]
    reply: Reply | None = None
    refused: tuple[str, ...] = ()
    """What was refused because no one could answer, a line each."""

    @property
    def exit_code(self) -> int:
        """For the process that ran it."""
        if self.status == "completed" and self.refused:
            return 1
        return {"completed": 0, "failed": 1, "timeout": 124, "interrupted": 130}[self.status]


class MessageView(Protocol):
    """Shows a run to the user. An exception of a view stops the run and is raised by `run_message`."""

    def show(self, event: Event) -> None:
        """One event of the session, from its first, or from the first since it was resumed."""
        ...

    def stopping(self, reason: StopReason) -> None:
        """The task is being stopped; its last events are still to come."""
        ...

    def end(self, ending: MessageOutcome) -> None:
        """Show how the run ended; no event follows."""
        ...


async def run_message(
    entering: AbstractAsyncContextManager[Session],
    message_request: MessageRequest,
    view: MessageView,
    approver: TerminalApprover | None = None,
) -> MessageOutcome:
    """Run a message. SIGINT, SIGTERM and the timeout stop it in good order; every event is shown before the end.

    `approver` asks the person at the terminal; None: no person is at it.
    """
    stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
    with on_stop_signal(lambda: _settle(stopped, "interrupted")):
        timer = _start_timer(message_request.timeout_s, stopped)
        try:
            async with reachable(entering) as session, asyncio.TaskGroup() as group:
                conversation = await _target_conversation(session, message_request)
                refusals = Refusals(counted=approver is None and session.settings.rights.approval_policy.may_ask)
                group.create_task(_watch(session, conversation, view, approver, refusals))
                asking = group.create_task(_ask(session, conversation, message_request))
                ending = await _wait_for_outcome(asking, stopped, view)
                await session.close()
                ending = replace(ending, refused=tuple(refusals.lines))
        except ExceptionGroup as several:
            # The first is the cause; the other tasks of the group fail because of it.
            raise several.exceptions[0] from None
        finally:
            if timer is not None:
                timer.cancel()
    view.end(ending)
    return ending


async def _ask(session: Session, conversation: Conversation, message_request: MessageRequest) -> Reply:
    """The answer. It is waited for MCP servers here, where events are shown and a signal stops it."""
    if session.settings.mcp_servers or session.settings.project_servers:
        await session.mcp.ready()
    going_on = session.activity.go_on()
    if message_request.items and message_request.output_schema is not None and message_request.as_codex:
        # Imported here: only the Codex SDK wants it.
        from tertulia.conversation.output_check import unchecked_schema

        output = unchecked_schema(message_request.output_schema)
        message = Message(conversation_id=conversation.id, items=list(message_request.items))
        return await conversation.submit(message, output=output).reply()
    if message_request.items:
        return await conversation.message(message_request.items, output_schema=message_request.output_schema)
    if not going_on:
        # It had come to its end before the crash: the answer is there.
        return Reply(_last_answer(await conversation.history()), "completed", NO_USAGE, 0, 0.0, TaskId(""), "")
    replies = await asyncio.gather(*(submission.reply() for submission in going_on))
    return replies[-1]


async def resume_and_show(entering: AbstractAsyncContextManager[Session], view: MessageView) -> str | None:
    """Resume a session, show its events, run nothing, and return the last answer of its root."""
    async with entering as session, asyncio.TaskGroup() as group:
        group.create_task(_watch(session, session.root, view, None, Refusals(counted=False)))
        entries = await session.root.history()
        await session.close()
    return _last_answer(entries)


def _last_answer(entries: Sequence[HistoryEntry]) -> str | None:
    return next((entry.text for entry in reversed(entries) if entry.role == "assistant"), None)


async def _target_conversation(session: Session, message_request: MessageRequest) -> Conversation:
    if message_request.opens is not None:
        return await session.open(**message_request.opens)
    name = message_request.conversation_id
    conversation = session.root if name == ROOT else session.conversation(find_open_conversation(session, name))
    if message_request.backend not in (None, conversation.info.backend):
        # Setting the same backend again would end its native session.
        await conversation.set_context(backend=message_request.backend)
    if message_request.instructions is not None:
        await conversation.set_context(base_instructions=message_request.instructions)
    return conversation


class Refusals:
    """Collects the calls that were refused because no one could answer an approval."""

    def __init__(self, *, counted: bool) -> None:
        """`counted`: False where the user wants that no one is asked, or can be asked."""
        self._counted = counted
        self._calls: dict[tuple[str | None, str], ToolCallBegin] = {}
        self.lines: list[str] = []

    def take(self, event: Event) -> None:
        """One event of the session, in its order."""
        match event.data:
            case ToolCallBegin() as begin:
                self._calls[event.conversation_id, begin.call_id] = begin
            case ToolCallEnd() as end:
                begin = self._calls.pop((event.conversation_id, end.call_id), None)
                refusal = None if end.success else refusal_fields(end.output)
                refused = refusal is not None and refusal["code"] == "no_approver"
                if refused and begin is not None and self._counted:
                    self.lines.append(call_text(begin))
            case _:
                pass


async def _watch(
    session: Session,
    conversation: Conversation,
    view: MessageView,
    approver: TerminalApprover | None,
    refusals: Refusals,
) -> None:
    trace = _trace()
    async for event in session.events(after=session.activity.began_after, attend=approver is not None):
        if trace is not None:
            trace.take(event)
        if isinstance(event.data, SessionConfigured):
            # For a view the conversation that got the message is the root: its answer is the answer.
            event = replace(event, data=replace(event.data, root_conversation_id=conversation.id))
        view.show(event)
        refusals.take(event)
        if approver is not None:
            approver.take(session, event)


def _trace() -> EventTrace | None:
    if not logging.getLogger(__name__).isEnabledFor(logging.DEBUG):
        return None
    # Imported here: few command lines log this.
    from tertulia.events.debug_trace import event_trace

    return event_trace()


async def _wait_for_outcome(
    asking: asyncio.Task[Reply], stopped: asyncio.Future[StopReason], view: MessageView
) -> MessageOutcome:
    waited_for: list[asyncio.Future[Any]] = [asking, stopped]
    await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        return _outcome(asking.result())
    reason = stopped.result()
    view.stopping(reason)
    # Giving up the wait is what stops the task, whether it runs or still stands in the queue.
    asking.cancel()
    await asyncio.wait([asking])
    return MessageOutcome(reason)


def _outcome(reply: Reply) -> MessageOutcome:
    if reply.error is not None and reply.error.code == "timeout":
        return MessageOutcome("timeout", reply)
    return MessageOutcome(reply.status, reply)


def _start_timer(seconds: float | None, stopped: asyncio.Future[StopReason]) -> asyncio.TimerHandle | None:
    if seconds is None:
        return None
    return asyncio.get_running_loop().call_later(seconds, _settle, stopped, "timeout")


def _settle(stopped: asyncio.Future[StopReason], reason: StopReason) -> None:
    if not stopped.done():
        stopped.set_result(reason)


# ---- warnings


def warning_text(data: EventData) -> str | None:
    """The sentence for an event that warns without failing the task; None for other events."""
    match data:
        case WarningEvent(message) | BackgroundEvent(message):
            # Replayed from a record that has no texts.
            return message or "[not stored]"
        case NetworkAccess(verdict="refused", because=because):
            return f"network: {because or '[not stored]'}"
        case McpServerStatus(name, status, str() as error):
            return server_status_text(name, status, error)
        case McpToolsChanged(withheld=[_, *_] as names):
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            return (
                f"not what was shown before, and withheld: {shown}; `tertulia mcp refresh` takes them as they are now"
            )
        case ConversationCloseForced(timeout_s):
            return f"the task did not stop within {timeout_s:g} s and was abandoned"
        case SubscriberLagged(int() as first, last):
            return f"events {first} to {last} were missed"
        case _:
            return None
