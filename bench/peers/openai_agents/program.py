"""The OpenAI Agents SDK: an agent, and its history as the list that `to_input_list` gives.

In its favour: Chat Completions (Responses, its default, cost it more), no database for the history, tracing off, the
tools of the MCP server listed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, Kind, Peer, serve
from peer_protocol import big_output as output_of_a_tool


@function_tool
def big_output() -> str:
    """Return a lot of text."""
    return output_of_a_tool()


@dataclass
class History:
    """The agent of a conversation and what was said in it."""

    agent: Agent
    items: list[Any] = field(default_factory=list)


class Program(Peer):
    """One agent a kind, shared by its conversations, as the SDK's examples do."""

    async def start(self) -> None:
        set_tracing_disabled(True)
        self._server: MCPServerStdio | None = None
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none")
        model = OpenAIChatCompletionsModel("gpt-4.1", client)
        child = Agent("child", instructions=CHILD_INSTRUCTIONS, model=model)
        tools = {"tool": [big_output], "delegate": [child.as_tool("ask_child", "Ask another agent.")]}
        self._agents = {
            kind: Agent("assistant", instructions=INSTRUCTIONS, model=model, tools=tools.get(kind, []))
            for kind in ("plain", "tool", "delegate", "mcp")
        }

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.cleanup()

    async def conversation(self, kind: Kind) -> History:
        if kind == "mcp" and self._server is None:
            command, *arguments = self.mcp_command
            self._server = MCPServerStdio({"command": command, "args": arguments}, cache_tools_list=True)
            await self._server.connect()
            self._agents["mcp"].mcp_servers.append(self._server)
        return History(self._agents[kind])

    async def turn(self, history: History, text: str) -> str:
        result = await Runner.run(history.agent, [*history.items, {"role": "user", "content": text}])
        history.items = result.to_input_list()
        return result.final_output


if __name__ == "__main__":
    serve(Program)
