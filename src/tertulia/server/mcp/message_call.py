"""Runs a message that came as an MCP tool call: reports progress to the client, and asks it for approvals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from msgspec.structs import replace

from tertulia.mcp.serve.sources import ServedCall
from tertulia.policy.display_text import make_display_text
from tertulia.protocol.events import AgentMessage, EventData, TaskStarted
from tertulia.protocol.inputs import Message
from tertulia.protocol.tool_events import McpToolCallProgress, PlanUpdate, ToolCallBegin, ToolCallEnd
from tertulia.scheduler.reply import Reply
from tertulia.session.session import Session

_MAX_TEXT = 200


class MessageCallProgress:
    """Reports one progress step to the client for each event that a person would want to see; the total is unknown."""

    def __init__(self, tell: Callable[[float, float | None, str | None], None]) -> None:
        self._tell = tell
        self._steps = 0

    def hear(self, data: EventData) -> None:
        """Report the event, if it is one that a person would want to see."""
        words = _describe_event(data)
        if words is not None:
            self._steps += 1
            short = words if len(words) <= _MAX_TEXT else f"{words[:_MAX_TEXT]}…"
            self._tell(float(self._steps), None, make_display_text(short).text)


def _describe_event(data: EventData) -> str | None:
    match data:
        case TaskStarted():
            return "the agent begins"
        case ToolCallBegin():
            return f"calls {data.name}"
        case ToolCallEnd():
            return f"{data.name} {'answered' if data.success else 'failed'}"
        case McpToolCallProgress():
            return data.message
        case PlanUpdate():
            return "has a new plan"
        case AgentMessage():
            return data.text
        case _:
            return None


async def run_message_call(session: Session, message: Message, call: ServedCall) -> Reply:
    """Submit the message and return its reply. A call that the client gives up stops the task."""
    conversation = session.conversation(message.conversation_id)
    progress = MessageCallProgress(call.progress)
    # Progress of the tools that the task calls is not passed on: the numbers that a client gets must only grow.
    with conversation.served_tools().questions(replace(call, progress=_ignore_progress)) as asking:
        submission = conversation.submit(message, follow=True)
        async with aclosing(submission.events()) as events:
            async for event in events:
                asking.on_event(event.data)
                progress.hear(event.data)
        return await submission.reply()


def _ignore_progress(done: float, total: float | None, message: str | None) -> None:
    """Do nothing: `MessageCallProgress` reports the steps."""
