"""AutoGen: an `AssistantAgent` for each conversation, which keeps its own messages.

In its favour: a child is a function that runs an agent of its own. `AgentTool` is its usual way, but must not be called
in parallel, as its documentation says.
"""

from __future__ import annotations

import asyncio
import logging

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import CancellationToken
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, Kind, Peer, serve
from peer_protocol import big_output as output_of_a_tool


def big_output() -> str:
    """Return a lot of text."""
    return output_of_a_tool()


class Conversation:
    """An agent, and the token that stops what it does."""

    def __init__(self, agent: AssistantAgent) -> None:
        self.agent = agent
        self.token = CancellationToken()


class Program(Peer):
    """The model client is shared; an agent is a conversation."""

    async def start(self) -> None:
        # Each request and answer is encoded for its log, whether or not it is listened to, unless the level says no.
        logging.getLogger("autogen_core").setLevel(logging.CRITICAL)
        self._client = OpenAIChatCompletionClient(model="gpt-4.1", base_url=f"{self.url}/v1", api_key="none")
        self._server: McpWorkbench | None = None

    async def stop(self) -> None:
        await self._client.close()
        if self._server is not None:
            await self._server.stop()

    async def _ask_child(self, input: str) -> str:
        """Ask another agent."""
        child = AssistantAgent("child", self._client, system_message=CHILD_INSTRUCTIONS)
        return (await child.run(task=input)).messages[-1].content

    async def conversation(self, kind: Kind) -> Conversation:
        async def ask_child(input: str) -> str:
            """Ask another agent."""
            return await self._ask_child(input)

        tools = {"tool": [big_output], "delegate": [ask_child]}
        more = {}
        if kind == "mcp":
            more["workbench"] = await self._workbench()
        elif kind in tools:
            more["tools"] = tools[kind]
        return Conversation(
            AssistantAgent(
                "assistant",
                self._client,
                system_message=INSTRUCTIONS,
                # Asks the model again when tools have answered, as the other peers do.
                reflect_on_tool_use=kind != "plain",
                **more,
            )
        )

    async def _workbench(self) -> McpWorkbench:
        if self._server is None:
            command, *arguments = self.mcp_command
            self._server = McpWorkbench(StdioServerParams(command=command, args=arguments))
            await self._server.start()
        return self._server

    async def turn(self, conversation: Conversation, text: str) -> str:
        message = TextMessage(content=text, source="user")
        response = await conversation.agent.on_messages([message], conversation.token)
        return response.chat_message.content

    async def cancel(self, conversation: Conversation, turn: asyncio.Task[str]) -> None:
        conversation.token.cancel()


if __name__ == "__main__":
    serve(Program)
