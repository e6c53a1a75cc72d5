"""Three colleagues answer at once: a chain is a tree, and every call gets exactly one answer."""

from __future__ import annotations

import asyncio

import tertulia
from tertulia.testing import ScriptedModel, ScriptedReply, ScriptedRequest, call, say

COLLEAGUES = ("history", "geography", "music")


def answer(request: ScriptedRequest) -> ScriptedReply:
    """The editor asks all three in one answer; each of them waits until the other two work as well."""
    if request.last_input == "Write about Lisbon.":
        return say("", *(call("conv_create", {"title": t, "user_instruction": f"Lisbon: {t}"}) for t in COLLEAGUES))
    if request.last_input.startswith("Lisbon: "):
        return say(f"What I know of its {request.last_input.removeprefix('Lisbon: ')}.", gate=all_at_work)
    return say("Three paragraphs about Lisbon.")


async def main() -> None:
    """Ask an editor who asks three others, then fan one question out over many inputs."""
    settings = tertulia.Settings(model=ScriptedModel([answer], repeat=True), slots=3)
    async with tertulia.Session.start(settings) as session:
        editor = await session.open(title="editor", include_conv_tools=True)
        running: set[str] = set()
        async for event in (stream := editor.stream("Write about Lisbon.")):
            if isinstance(event.data, tertulia.TaskStarted) and event.data.kind == "target":
                running.add(str(event.conversation_id))
                if len(running) == len(COLLEAGUES):
                    all_at_work.set()
        reply = await stream.reply()
        print(f"{len(running)} worked at once: {reply.text}")
        assert (len(running), reply.text) == (3, "Three paragraphs about Lisbon.")

        answered = [reply.index async for reply in session.map({}, [f"Question {n}" for n in range(8)])]
        print(f"{len(answered)} inputs were answered, three at a time")
        assert sorted(answered) == list(range(8))


all_at_work = asyncio.Event()

if __name__ == "__main__":
    asyncio.run(main())
