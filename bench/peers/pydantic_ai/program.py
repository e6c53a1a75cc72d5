"""Pydantic AI: an agent, and its history as the list that `all_messages` gives.

In its favour: Chat Completions, the tools of the MCP server listed once, the agent entered once, so that the
server runs on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fastmcp.client.transports import StdioTransport
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, Kind, Peer, big_output, serve
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


@dataclass
class History:
    """The agent of a conversation and what was said in it."""

    agent: Agent
    messages: list[ModelMessage] = field(default_factory=list)


class Program(Peer):
    """One agent a kind, shared by its conversations, as its documentation says agents are."""

    async def start(self) -> None:
        provider = OpenAIProvider(base_url=f"{self.url}/v1", api_key="none")
        self._model = OpenAIChatModel("gpt-4.1", provider=provider)
        child = Agent(self._model, instructions=CHILD_INSTRUCTIONS)

        async def ask_child(input: str) -> str:
            """Ask another agent."""
            return (await child.run(input)).output

        tools = {"tool": [big_output], "delegate": [ask_child]}
        self._agents = {
            kind: Agent(self._model, instructions=INSTRUCTIONS, tools=tools.get(kind, []))
            for kind in ("plain", "tool", "delegate")
        }

    async def stop(self) -> None:
        if "mcp" in self._agents:
            await self._agents["mcp"].__aexit__(None, None, None)

    async def conversation(self, kind: Kind) -> History:
        if kind == "mcp" and kind not in self._agents:
            command, *arguments = self.mcp_command
            server = MCPToolset(StdioTransport(command, arguments))
            self._agents[kind] = Agent(self._model, instructions=INSTRUCTIONS, toolsets=[server])
            await self._agents[kind].__aenter__()
        return History(self._agents[kind])

    async def turn(self, history: History, text: str) -> str:
        result = await history.agent.run(text, message_history=history.messages)
        history.messages = result.all_messages()
        return result.output


if __name__ == "__main__":
    serve(Program)
