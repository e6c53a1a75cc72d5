"""An agent: a conversation with a name, told what your provider knows, that asks it back and draws on its canvas."""

import asyncio

import tertulia
from tertulia.context.definitions import InternalCaller
from tertulia.testing import ScriptedModel, call, say


class Lobby(tertulia.ContextProvider):
    """One subsystem that has something to say to agents, and answers when they ask."""

    name = "lobby"

    def get_system_context(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> str:
        return f"## The front desk\n\nThere is a letter for {agent_name}."

    def get_tools(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> list[tertulia.ToolDefinition]:
        about = {"about": {"type": "string", "required": True}}
        return [
            tertulia.ToolDefinition("lobby_ask", "Ask the front desk.", about, "lobby.ask", "service", None, self.ask)
        ]

    def ask(self, who: InternalCaller, arguments: dict[str, str]) -> str:
        # Who asks is told by the agent's token, never by what it says.
        return f"One {arguments['about']} for {who.agent_name}, from the library."


async def main() -> None:
    model = ScriptedModel([
        call("lobby_ask", {"about": "letter"}),
        call("canvas_update", {"html": "<h1>One letter</h1>", "title": "Mail"}),
        say("It is on my canvas."),
    ])  # fmt: skip
    async with tertulia.Session.start(tertulia.Settings(model=model, providers=[Lobby()])) as session:
        ada = await session.open(agent={"name": "ada", "archetype": "employee"})
        for part in (await ada.context()).additions:
            print(f"{part['provider']:16} {part['tokens']:4} tokens")
        outputs: list[str] = []
        shown: str | None = None
        async for event in ada.stream("Show me the mail."):
            match event.data:
                case tertulia.ToolCallEnd(output=output):
                    outputs.append(output)
                case tertulia.CanvasUpdated(title=title):
                    shown = title
                case _:
                    pass
        repo = await session.open(agent={"name": "eva", "archetype": "repo"})
        plain = await session.open()
        assert outputs[0] == "One letter for ada, from the library."
        assert "lobby_ask" not in [tool.name for tool in repo.tools()], "that is for services and above"
        assert (await plain.context()).additions == [], "without an agent nothing is said"
    print(outputs[0], "| on the canvas:", shown)
    assert shown == "Mail"


asyncio.run(main())
