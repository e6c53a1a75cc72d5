"""All that a model would be sent, part by part."""

from __future__ import annotations

from tertulia.session.describe import prompt_parts
from tests.session.agents_stage import EMPLOYEE, Porter, bell
from tests.session.staging import stage


async def test_parts_are_those_of_a_request_in_its_order() -> None:
    """Issue 9, item 8: what is shown is what is sent."""
    async with stage("hi", providers=[Porter(text="It rains.", tools=[bell()])], cwd="/usr") as acting:
        agent = await acting.session.open(agent=EMPLOYEE, base_instructions="Be brief.", user_instructions="In French.")
        parts = prompt_parts(acting.parts, acting.parts.conversations.find(agent.id))
        first, *rest = parts
        assert (first.kind, first.source, first.text) == ("instructions", "override", "Be brief.")
        messages = [part for part in rest if part.kind == "message"]
        assert [(part.name, part.source) for part in messages] == [
            ("user_instructions", "user"),
            *(("context_additions", name) for name in ("core-identity", "canvas", "workspace", "porter")),
            ("context_additions", "internal-tools"),
            ("environment_context", "session"),
        ]
        await agent.message("go")
        (request,) = acting.model.requests
        sent = "\n".join(item.text for item in request.items)
        assert all(part.text in sent for part in messages)
        tools = [part.name for part in rest if part.kind == "tool"]
        assert tools == [spec.name for spec in request.request.tools]
        assert all(part.tokens > 0 for part in parts)


async def test_what_was_said_since_is_shown_too() -> None:
    async with stage("hello", cwd="/usr") as acting:
        await acting.root.message("hi")
        parts = prompt_parts(acting.parts, acting.parts.conversations.root)
        texts = [part.text for part in parts if part.source == "history"]
        assert texts == ["hi", "hello"]
