"""Google's Agent Development Kit: a runner with sessions in memory, and Gemini's own API.

In its favour: `generateContent`, which it speaks by itself; Chat Completions would go through LiteLLM and cost more.
"""

from __future__ import annotations

import itertools

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, WORK, Kind, Peer, serve
from peer_protocol import big_output as output_of_a_tool

Conversation = tuple[Runner, str]
"""The runner and the session."""


def big_output() -> str:
    """Return a lot of text."""
    return output_of_a_tool()


class Program(Peer):
    """One runner a kind, shared by its conversations."""

    delegate_call = ("child", {"request": WORK})

    async def start(self) -> None:
        self._numbers = itertools.count()
        self._model = Gemini(model="gemini-2.5-flash", base_url=self.url)
        child = LlmAgent(name="child", model=self._model, instruction=CHILD_INSTRUCTIONS)
        self._runners = {
            "plain": self._runner([]),
            "tool": self._runner([big_output]),
            "delegate": self._runner([AgentTool(child)]),
        }
        self._toolset = None

    def _runner(self, tools: list[object]) -> Runner:
        agent = LlmAgent(name="assistant", model=self._model, instruction=INSTRUCTIONS, tools=tools)
        return Runner(app_name="bench", agent=agent, session_service=InMemorySessionService())

    async def stop(self) -> None:
        if self._toolset is not None:
            await self._toolset.close()

    async def conversation(self, kind: Kind) -> Conversation:
        if kind == "mcp" and kind not in self._runners:
            from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
            from mcp import StdioServerParameters

            command, *arguments = self.mcp_command
            parameters = StdioServerParameters(command=command, args=arguments)
            self._toolset = McpToolset(connection_params=StdioConnectionParams(server_params=parameters))
            self._runners[kind] = self._runner([self._toolset])
        runner = self._runners[kind]
        session = str(next(self._numbers))
        await runner.session_service.create_session(app_name="bench", user_id="user", session_id=session)
        return runner, session

    async def turn(self, conversation: Conversation, text: str) -> str:
        runner, session = conversation
        message = types.Content(role="user", parts=[types.Part(text=text)])
        answer = ""
        async for event in runner.run_async(user_id="user", session_id=session, new_message=message):
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[-1].text or ""
        return answer


if __name__ == "__main__":
    serve(Program)
