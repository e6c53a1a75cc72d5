"""Uses one plug-in of each kind. Install the four packages beside this file first."""

import asyncio

import tertulia
from tertulia.testing import ScriptedModel, call, say


async def main() -> None:
    async with tertulia.Session.start(tertulia.Settings(model="parrot/polly", tools=["word_count"])) as session:
        assert (await session.root.message("hello")).text == "polly: hello"

        counter = await session.open(model=ScriptedModel([call("word_count", {"text": "a b c"}), say("three")]))
        async for event in counter.stream("count"):
            if isinstance(event.data, tertulia.ToolCallEnd):
                assert event.data.output == "3"

        echo = await session.open(backend="plugin:echo")
        assert (await echo.message("hello")).text == "HELLO"

        ada = await session.open(agent={"name": "ada"})
        assert "There is a letter for ada." in [part["text"] for part in (await ada.context()).additions][-1]
    print("a wire, a tool, an executor and a provider")


asyncio.run(main())
