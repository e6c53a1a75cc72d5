"""A model opens a conversation, asks it, asks it again and closes it. Every call comes back with one answer."""

import asyncio
import json

import tertulia
from tertulia.testing import RecordedEvents, ScriptedAnswer, ScriptedModel, ScriptedRequest, call, check_invariants, say


def editor(request: ScriptedRequest) -> ScriptedAnswer:
    """Has a text written, has it shortened, and lets the writer go. It remembers the id from the first answer."""
    outputs = [json.loads(item.text) for item in request.items if isinstance(item, tertulia.ToolOutput)]
    match len(outputs):
        case 0:
            brief = {"base_instruction_text": "You write.", "user_instruction": "A line about tea.", "title": "writer"}
            return say("I have it written.", call("conv_create", brief))
        case 1:
            writer = outputs[0]["conversation_id"]
            return say("Too long.", call("conv_send", {"conversation_id": writer, "text": "Shorter!"}))
        case 2:
            return say("", call("conv_destroy", {"conversation_id": outputs[0]["conversation_id"]}))
        case _:
            return say(outputs[1]["last_assistant_message"])


def model(request: ScriptedRequest) -> ScriptedAnswer:
    if request.instructions.startswith("You write."):
        return say("Tea." if request.last_input == "Shorter!" else "Tea is what conversations are made of.")
    return editor(request)


async def main() -> None:
    settings = tertulia.Settings(model=ScriptedModel([model], repeat=True), sandbox="read-only")
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        reply = await session.root.message("Get me a line about tea.")
        editor_id, left = session.root.id, session.conversations()
    for event in events.seen:
        name = "editor" if event.conversation_id == editor_id else "writer"
        match event.data:
            case tertulia.TaskStarted(kind=detail) | tertulia.TurnAborted(reason=detail):
                print(f"{name:7} {event.type:20} {detail}")
            case tertulia.ConversationOpened() | tertulia.ToolCallEnd() | tertulia.TaskComplete():
                print(f"{name:7} {event.type}")
            case _:
                pass

    assert (reply.text, reply.tool_calls) == ("Tea.", 3)
    assert len(left) == 1  # the writer is gone
    check_invariants(events.seen)


asyncio.run(main())
