"""Runs a command line of the person's own in a conversation's directory, confined as its commands are."""

from __future__ import annotations

import os

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.errors import BusyError, InvalidParamsError
from tertulia.events.bus import EventScope
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import CallId, TaskId, new_item_id
from tertulia.protocol.inputs import check_text
from tertulia.protocol.items import TextPart, UserMessage
from tertulia.protocol.tool_events import Decider
from tertulia.sandbox.runner import Command, CommandResult
from tertulia.session.parts import SessionParts
from tertulia.tools.shell.command_approval import check_argv
from tertulia.tools.shell.live_command import LiveCommand, without_nul
from tertulia.tools.shell.shell import command_result
from tertulia.tools.tool import CallContext

_SHELLS = ("/bin/bash", "/bin/sh")


class CommandAnswer(msgspec.Struct, frozen=True):
    """How a command of the person's ended."""

    call_id: CallId
    """Its events have the same."""
    exit_code: int
    """124: it took too long."""
    output: str
    """Both streams, as they came; of a long one the beginning and the end."""
    truncated: bool
    duration_ms: int
    offered: bool
    """Whether the model will read it with its next request."""


async def run_shell_command(
    parts: SessionParts, conversation: ConversationState, line: str, *, by: str, timeout_s: float | None, offer: bool
) -> CommandAnswer:
    """Run it to its end; see `Person.run_command`."""
    if not check_text(line, "line").strip():
        raise InvalidParamsError("the command is empty; write one after the !")
    argv = _argv(line)
    check_argv(argv)
    place, terms = parts.command_services.place, conversation.terms
    call = _context(parts, conversation)
    confinement = place.confinement(terms.rights, terms.worktree)
    command = Command(
        argv=argv,
        cwd=place.directory(None, call),
        confinement=confinement,
        gate=place.gate(confinement, argv, call),
        environment=place.environment,
        watch=place.watch(terms.rights),
    )
    live = await LiveCommand.start(place.runner, command, call, Decider("client", by))
    seconds = place.timeout_s if timeout_s is None else timeout_s
    finished = await live.see_through(seconds)
    offered = offer and _offer(parts, conversation, line, finished, seconds)
    await parts.journal.settle()
    output = finished.output
    duration_ms = round(finished.duration_s * 1000)
    text = without_nul(output.text())
    return CommandAnswer(call.call_id, finished.exit_code, text, output.truncated, duration_ms, offered)


def _argv(line: str) -> tuple[str, ...]:
    return (next((path for path in _SHELLS if os.path.exists(path)), _SHELLS[-1]), "-c", line)


def _context(parts: SessionParts, conversation: ConversationState) -> CallContext:
    scope = EventScope("", conversation.id)

    def publish(data: EventData) -> None:
        parts.bus.publish(data, scope)

    return CallContext(
        conversation_id=conversation.id,
        task_id=TaskId(""),
        call_id=CallId(new_item_id()),
        cwd=conversation.terms.cwd,
        rights=conversation.terms.rights,
        publish=publish,
        clock=parts.clock,
        worktree=conversation.terms.worktree,
    )


def _offer(
    parts: SessionParts, conversation: ConversationState, line: str, finished: CommandResult, timeout_s: float
) -> bool:
    """Have the model read it with its next request; False, and a warning, where too much waits for that already."""
    result = command_result(finished, timeout_s).text
    text = f"<user_shell_command>\n<command>\n{line}\n</command>\n<result>\n{result}\n</result>\n</user_shell_command>"
    try:
        conversation.queue_input(UserMessage(new_item_id(), (TextPart(text),)))
    except BusyError as error:
        message = f"the model will not read the output of the last command: {error.message}"
        parts.bus.publish(WarningEvent(message, "not_offered"), EventScope("", conversation.id))
        return False
    return True
