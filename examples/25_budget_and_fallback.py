"""A model that fails is replaced for the rest of the task, and a budget stops the session before the next request."""

import asyncio
import json
import tempfile
from pathlib import Path

import tertulia
from tertulia.testing import ScriptedModel, fail


async def main() -> None:
    """Ask twice: the first answer comes from the fallback model, the second request is not sent."""
    with tempfile.TemporaryDirectory() as folder:
        spare = Path(folder) / "spare.json"
        spare.write_text(json.dumps({"replies": ["The spare one answers."], "repeat": True}))
        settings = tertulia.Settings(
            model=ScriptedModel([fail("529: overloaded")], repeat=True),
            fallback_models=[f"scripted/{spare}"],
            budget={"tokens": 1_000},
            storage_policy="none",
        )
        async with tertulia.Session.start(settings) as session:
            events = session.events()
            reply = await session.root.message("Who answers?")
            assert reply.text == "The spare one answers."
            async for event in events:
                if isinstance(event.data, tertulia.WarningEvent):
                    print(event.data.message)
                    assert event.data.code == "model_fallback"
                    break

            reply = await session.root.message("And now?")
            assert reply.error is not None
            print(reply.error.message)
            assert reply.error.code == "budget_exceeded"
            used = (await session.metrics()).budget
            assert used is not None
            assert used.used_tokens >= 1_000


asyncio.run(main())
