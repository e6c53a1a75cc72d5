"""Two executors, each a conversation: what the first one made is the second one's previous execution result."""

import asyncio
import sys

import tertulia
from tertulia.testing import RecordedEvents, ScriptedModel, check_invariants

# Any program that reads a prompt and prints an answer is an agent. `codex` and `claude` need no table at all.
WRITER = """
import sys
prompt = sys.stdin.read()
print("Tea, again." if "Conversation History" in prompt else "Tea is what conversations are made of.")
"""
REVIEWER = """
import sys
draft = sys.stdin.read().partition("## Previous execution result")[2].strip()
print(f"{len(draft.split())} words. Shorter, please." if len(draft.split()) > 3 else "Good.")
"""


def program(source: str) -> dict[str, object]:
    # What it is started with in each sandbox mode: here nothing, because it only talks.
    return {"command": [sys.executable, "-c", source], "sandbox": {"workspace-write": []}}


async def main() -> None:
    settings = tertulia.Settings(
        model=ScriptedModel([]), executors={"writer": program(WRITER), "reviewer": program(REVIEWER)}
    )
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        writer = await session.open(backend="command:writer", title="writer")
        reviewer = await session.open(backend="command:reviewer", title="reviewer")
        verdicts: list[str | None] = []
        task = "A line about tea."
        for _ in range(2):
            draft = await writer.message(task)
            verdict = await reviewer.message("Review the draft.", previous_result=draft.text)
            print(f"writer    {draft.text}\nreviewer  {verdict.text}")
            verdicts.append(verdict.text)
            task = f"The reviewer says: {verdict.text}"

    assert verdicts == ["7 words. Shorter, please.", "Good."]
    assert [event.type for event in events.seen].count("task_complete") == 4
    check_invariants(events.seen)


asyncio.run(main())
