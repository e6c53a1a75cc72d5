"""What is stored comes back: a session is closed, taken up again, forked, and its prompts are proved.

What a conversation asked not to be stored is not there, and the model is told so.
"""

import asyncio
import os
import subprocess
import sys
import tempfile

import tertulia
from tertulia.testing import ScriptedModel


async def first_life() -> str:
    model = ScriptedModel(["Noted: the key is under the mat.", "A secret stays one."])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        await session.root.message("The key is under the mat.")
        private = await session.open(title="diary", storage_policy=tertulia.HeadersOnly())
        await private.message("Nobody must read this.")
        return session.id


def texts(model: ScriptedModel) -> list[str]:
    messages = (tertulia.UserMessage, tertulia.AssistantMessage)
    return [item.text for item in model.last_request.items if isinstance(item, messages)]


async def second_life(session_id: str) -> None:
    model = ScriptedModel(["Under the mat.", "I was told, but it is gone."])
    async with tertulia.Session.resume(session_id, tertulia.Settings(model=model)) as session:
        reply = await session.root.message("Where is the key?")
        print(f"root remembers: {reply.text}")
        assert any("under the mat" in text for text in texts(model))

        (_, diary) = session.conversations()
        reply = await diary.message("What did I write?")
        print(f"diary: {reply.text}")
        assert not any("Nobody must" in text for text in texts(model))


def tertulia_says(*arguments: str) -> str:
    command = [sys.executable, "-m", "tertulia", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


with tempfile.TemporaryDirectory() as home:
    os.environ["TERTULIA_HOME"] = home
    old = asyncio.run(first_life())
    asyncio.run(second_life(old))

    fork = tertulia_says("sessions", "fork", old, "--at", "1").strip()
    print(tertulia_says("sessions", "ls"))
    print(tertulia_says("sessions", "replay", old, "--verify"))
    assert fork != old
    assert "Where is the key?" not in tertulia_says("sessions", "replay", fork)
    assert "Nobody must" not in tertulia_says("sessions", "export", old)
