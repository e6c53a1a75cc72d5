"""Two conversations of one session: neither sees the other, and neither gets more than the session allows."""

import asyncio

import tertulia
from tertulia.testing import ScriptedModel, say


async def main() -> None:
    model = ScriptedModel([say("A poem about code.", match="poem"), say("Looks correct.", match="review")])
    settings = tertulia.Settings(model=model, sandbox="read-only")
    async with tertulia.Session.start(settings) as session:
        poet = await session.open(
            base_instructions="You write poems.",
            shell_mode="none",
            include_apply_patch_tool=False,
            include_plan_tool=False,
            include_conv_tools=False,
        )
        critic = await session.open(
            base_instructions="You review code.",
            sandbox="danger-full-access",  # more than the session has
            storage_policy=tertulia.HeadersOnly(),
        )
        async for event in poet.stream("Write a poem."):
            print(f"{event.type:22} {event.conversation_id}")
        reply = await critic.message("Please review this.")
        print(reply.text)

        sent = model.last_request
        assert sent.instructions == "You review code."
        assert not any("poem" in item.text for item in sent.items if isinstance(item, tertulia.UserMessage))

        (narrowed,) = (await critic.context()).narrowed
        print(f"asked for {narrowed.asked}, given {narrowed.given}, because of the {narrowed.because}")
        assert (narrowed.field, narrowed.given) == ("sandbox", "read-only")
        assert [tool.name for tool in poet.tools()] == []
        assert [tool.name for tool in critic.tools()][:2] == ["shell", "apply_patch"]


asyncio.run(main())
