"""The OpenHands SDK: a `Conversation` with an agent for each conversation, in this process.

In its favour: Chat Completions without streaming, nothing is printed or stored, no check for a stuck agent, none of its
default tools, and as many tools at once as W8 asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from openhands.sdk import LLM, Agent, Conversation, MessageEvent
from openhands.sdk.event import Event
from openhands.sdk.tool import Action, Observation, Tool, ToolDefinition, ToolExecutor, register_tool
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, Kind, Peer, serve
from peer_protocol import big_output as output_of_a_tool


class OutputAction(Action):
    """Ask for a lot of text."""


class ChildAction(Action):
    """Ask another agent."""

    input: str


class TextObservation(Observation):
    """What a tool found, as text."""


class Dialogue:
    """A conversation, and the last message of its agent."""

    def __init__(self, agent: Agent) -> None:
        self.answer = ""
        self.conversation = Conversation(
            agent, workspace="work", visualizer=None, stuck_detection=False, callbacks=[self._on_event]
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, MessageEvent) and event.source == "agent":
            self.answer = "".join(getattr(part, "text", "") for part in event.llm_message.content)


class OutputExecutor(ToolExecutor):
    """Gives ten megabytes."""

    def __call__(self, action: OutputAction, conversation: Any = None) -> TextObservation:
        return TextObservation.from_text(text=output_of_a_tool())


class ChildExecutor(ToolExecutor):
    """Runs an agent of its own in the thread that the SDK gives to a tool."""

    agent: Agent

    def __call__(self, action: ChildAction, conversation: Any = None) -> TextObservation:
        child = Dialogue(self.agent)
        child.conversation.send_message(action.input)
        child.conversation.run()
        return TextObservation.from_text(text=child.answer)


class BigOutput(ToolDefinition[OutputAction, TextObservation]):
    """Return a lot of text."""

    @classmethod
    def create(cls, conv_state: Any = None, **parameters: Any) -> Sequence[BigOutput]:
        return [_tool(cls, OutputAction, OutputExecutor())]


class AskChild(ToolDefinition[ChildAction, TextObservation]):
    """Ask another agent."""

    @classmethod
    def create(cls, conv_state: Any = None, **parameters: Any) -> Sequence[AskChild]:
        return [_tool(cls, ChildAction, ChildExecutor())]


def _tool(kind: Any, action: type[Action], executor: ToolExecutor) -> Any:
    return kind(description=kind.__doc__, action_type=action, observation_type=TextObservation, executor=executor)


class Program(Peer):
    """The model is shared; each conversation has its own agent."""

    async def start(self) -> None:
        self._llm = LLM(
            model="openai/gpt-4.1",
            base_url=f"{self.url}/v1",
            api_key="none",
            api_mode="chat",
            stream=False,
            num_retries=0,
        )
        register_tool("BigOutput", BigOutput)
        register_tool("AskChild", AskChild)
        ChildExecutor.agent = self._agent("plain", CHILD_INSTRUCTIONS)

    def _agent(self, kind: Kind, instructions: str = INSTRUCTIONS) -> Agent:
        command, *arguments = self.mcp_command
        tools = {"tool": [Tool(name="BigOutput")], "delegate": [Tool(name="AskChild")]}
        return Agent(
            llm=self._llm,
            system_prompt=instructions,
            include_default_tools=[],
            tools=tools.get(kind, []),
            mcp_config={"bench": {"command": command, "args": arguments}} if kind == "mcp" else {},
            tool_concurrency_limit=100,
        )

    async def conversation(self, kind: Kind) -> Dialogue:
        return Dialogue(self._agent(kind))

    async def turn(self, dialogue: Dialogue, text: str) -> str:
        # Starting an MCP server blocks, so the first message of a conversation is given from a thread.
        await asyncio.to_thread(dialogue.conversation.send_message, text)
        await dialogue.conversation.arun()
        return dialogue.answer

    async def cancel(self, dialogue: Dialogue, turn: asyncio.Task[str]) -> None:
        dialogue.conversation.interrupt()


if __name__ == "__main__":
    serve(Program)
