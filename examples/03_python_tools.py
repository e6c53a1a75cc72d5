"""A typed Python function is a tool: its schema comes from the annotations, its description from the docstring."""

import asyncio

import tertulia
from tertulia.testing import RecordedEvents, ScriptedModel, assert_order, call, say

PRICES = {"tea": 2.5, "coffee": 3.0}


@tertulia.tool(read_only=True)
def price(drink: str, cups: int = 1) -> float:
    """What a drink costs.

    Args:
        drink: Its name on the menu.
        cups: How many.
    """
    return PRICES[drink] * cups


async def main() -> None:
    model = ScriptedModel(
        [
            say("Let me look.", call("price", {"drink": "tea", "cups": 2}), call("price", {"drink": "wine"})),
            "Two teas are 5.0; there is no wine.",
        ]
    )
    async with tertulia.Session.start(tertulia.Settings(model=model, tools=[price])) as session:
        async with RecordedEvents(session) as events:
            reply = await session.root.message("Two teas and a glass of wine?")
        for event in events.seen:
            if isinstance(event.data, tertulia.ToolCallEnd):
                print(f"{event.data.name} -> {event.data.output}")
        print(reply.text)

        outputs = [item for item in model.last_request.items if isinstance(item, tertulia.ToolOutput)]
        assert (outputs[0].text, outputs[0].success) == ("5.0", True)
        assert not outputs[1].success  # KeyError: the model is told, the task goes on
        assert reply.tool_calls == 2
        assert_order(events.seen, ["task_started", "tool_call_begin", "tool_call_end", "task_complete"])


asyncio.run(main())
