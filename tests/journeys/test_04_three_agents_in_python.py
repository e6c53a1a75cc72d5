"""I write Python and want three agents: one that drafts, one that reviews, one of which nothing is stored.

Issue 19, "Done when", journey 4. The program below is all that I write.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.journeys.person import Person
from tests.journeys.provider import serving

PROGRAM = """
import asyncio

import tertulia


async def main() -> None:
    async with tertulia.Session.start(tertulia.Settings(model="openai/gpt-5.2", sandbox="read-only")) as session:
        writer = await session.open(title="writer", base_instructions="You draft a line.")
        critic = await session.open(title="critic", base_instructions="You review a line.")
        lawyer = await session.open(base_instructions="You advise.", storage_policy=tertulia.NoStorage())

        draft = await writer.message("A line about tea")
        draft.raise_for_status()
        review = await critic.message(f"Review: {draft.text}")
        secret = await lawyer.message("Is the brand name BLUEPOT free?")
        async for event in writer.stream("Once more"):
            if event.type == "agent_message":
                print("writer:", event.data.text)
        print("critic:", review.text)
        print("lawyer:", secret.text)
        print("session:", session.id)


asyncio.run(main())
"""


def answer(body: dict[str, Any]) -> str:
    """By who is asked."""
    text = json.dumps(body)
    if "You draft a line." in text:
        return "Tea again." if "Once more" in text else "Tea, then talk."
    return "It scans." if "You review a line." in text else "BLUEPOT is taken."


def test_three_agents_that_know_nothing_of_each_other(person: Person) -> None:
    program = person.writes("team.py", PROGRAM)

    with serving(answer, wants_key="sk-journey") as provider:
        person.exports(OPENAI_BASE_URL=provider.url, OPENAI_API_KEY="sk-journey")
        ran = person.runs(sys.executable, str(program))
        assert ran.code == 0, ran.err
        lines = ran.out.splitlines()
        assert lines[:3] == ["writer: Tea again.", "critic: It scans.", "lawyer: BLUEPOT is taken."]

        # Each was sent its own instructions and history, and not a word of the others.
        for request in provider.asked:
            roles = [
                role for role in ("You draft a line.", "You review a line.", "You advise.") if role in request.text
            ]
            assert len(roles) == 1
            assert ("BLUEPOT" in request.text) == (roles == ["You advise."])

        # The one that I use most gets a name, and is there on the command line too.
        person.configures('[agents.critic]\ndescription = "Reviews a line"\ninstructions = "You review a line."\n')
        assert "critic" in person.tertulia("agents", "ls").out
        again = person.tertulia("exec", "--quiet", "--agent", "critic", "Review: Tea.")
        assert (again.code, again.out) == (0, "It scans.\n"), again.err
        assert "You review a line." in provider.asked[-1].text

    # Two of them are there tomorrow. Of the third nothing was written.
    session_id = lines[3].removeprefix("session: ")
    shown = person.tertulia("sessions", "show", session_id)
    assert shown.code == 0
    assert "writer" in shown.out
    assert "critic" in shown.out
    stored = b"".join(path.read_bytes() for path in person.home.rglob("*") if path.is_file())
    assert b"Tea, then talk." in stored
    assert b"BLUEPOT" not in stored
