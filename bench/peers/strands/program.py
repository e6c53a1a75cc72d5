"""Strands Agents: an `Agent` for each conversation, which keeps its own messages.

In its favour: nothing is printed, one MCP client serves all conversations, and one HTTP client all requests: with
`client_args`, which its guides use, every request makes a client of its own and costs ten times as much. The whole
history is sent, as by the other peers; by default it would be the last 40 messages.
"""

from __future__ import annotations

import asyncio

from mcp import StdioServerParameters, stdio_client
from openai import AsyncOpenAI
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, Kind, Peer, serve
from peer_protocol import big_output as output_of_a_tool
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient


@tool
def big_output() -> str:
    """Return a lot of text."""
    return output_of_a_tool()


class Program(Peer):
    """The model is shared; an agent is a conversation."""

    async def start(self) -> None:
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none")
        self._model = OpenAIModel(client, model_id="gpt-4.1")
        self._server: MCPClient | None = None

        @tool
        async def ask_child(input: str) -> str:
            """Ask another agent.

            Args:
                input: What it is to do.
            """
            return str(await self._agent(CHILD_INSTRUCTIONS, []).invoke_async(input))

        self._tools = {"tool": [big_output], "delegate": [ask_child]}

    def _agent(self, instructions: str, tools: list[object]) -> Agent:
        manager = NullConversationManager()
        return Agent(
            self._model, tools=tools, system_prompt=instructions, callback_handler=None, conversation_manager=manager
        )

    async def stop(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop, None, None, None)

    async def conversation(self, kind: Kind) -> Agent:
        if kind == "mcp" and self._server is None:
            command, *arguments = self.mcp_command
            parameters = StdioServerParameters(command=command, args=arguments)
            self._server = MCPClient(lambda: stdio_client(parameters))
            await asyncio.to_thread(self._server.start)
            self._tools["mcp"] = list(await asyncio.to_thread(self._server.list_tools_sync))
        return self._agent(INSTRUCTIONS, self._tools.get(kind, []))

    async def turn(self, agent: Agent, text: str) -> str:
        return str(await agent.invoke_async(text))

    async def cancel(self, agent: Agent, turn: asyncio.Task[str]) -> None:
        # Its own `cancel` waits for the next piece of the stream, so a provider that is silent would hold it up.
        turn.cancel()


if __name__ == "__main__":
    serve(Program)
