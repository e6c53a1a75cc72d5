"""A message that came as an MCP call: its client hears how it goes on, and is asked what has to be asked."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.mcp.serve.sources import ServedCall
from tertulia.protocol.events import Event
from tertulia.protocol.inputs import Message
from tertulia.scheduler.reply import Reply
from tertulia.server.mcp_progress import Progress
from tertulia.session.mcp.served_tools import ClientQuestions
from tertulia.session.session import Session
from tertulia.session.submission import submit_and_wait


async def attended_message(session: Session, message: Message, call: ServedCall) -> Reply:
    """What it comes to. A call that is given up stops the task."""
    parts = session.parts
    talk = parts.conversations.find(message.conversation_id)
    progress = Progress(call.progress)
    # How far one of its tools has come is a step of ours at most: what a client is told must only ever grow.
    with ClientQuestions(parts, talk, replace(call, progress=_unheard)) as asking:

        def hear(event: Event) -> None:
            asking.hear(event.data)
            progress.hear(event.data)

        return await submit_and_wait(parts.scheduler, parts.bus, talk, message, hear)


def _unheard(done: float, total: float | None, message: str | None) -> None:
    """Told by `Progress`, in its own count."""
