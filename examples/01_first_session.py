"""The smallest program: a session, its root conversation, one question.

The model is a script, so this runs without a key. Put `model="provider/model"` there for a real one.
"""

import asyncio

import tertulia
from tertulia.testing import ScriptedModel


async def main() -> None:
    settings = tertulia.Settings(model=ScriptedModel(["A table where many conversations are held in turn."]))
    async with tertulia.Session.start(settings) as session:
        reply = await session.root.message("What is a tertulia?")
        print(reply.text)
        print(f"{reply.status} in {reply.duration:.3f} s, {reply.usage.total_tokens} tokens")

        assert reply.status == "completed"
        assert [entry.role for entry in await session.root.history()] == ["user", "assistant"]


asyncio.run(main())
