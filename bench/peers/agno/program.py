"""Agno: an agent with a database in memory, and a session of it for each conversation.

In its favour: telemetry off, and the database in memory, where its guides use SQLite. The whole history is sent, as by
the other peers; by default it would be that of three runs.
"""

from __future__ import annotations

import asyncio
import itertools

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat
from agno.team import Team
from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, WORK, Kind, Peer, big_output, serve

WHOLE = {"add_history_to_context": True, "num_history_runs": 1_000_000, "telemetry": False}

Conversation = tuple[Agent | Team, str]
"""The agent, or the team, and the session."""


class Program(Peer):
    """One agent a kind, shared by its conversations; delegation is what a team does."""

    delegate_call = ("delegate_task_to_member", {"member_id": "child", "task": WORK})

    async def start(self) -> None:
        self._numbers = itertools.count()
        self._server: MCPTools | None = None
        self._agents: dict[str, Agent | Team] = {
            "plain": self._agent([]),
            "tool": self._agent([big_output]),
            "delegate": self._team(),
        }

    def _model(self) -> OpenAIChat:
        return OpenAIChat(id="gpt-4.1", base_url=f"{self.url}/v1", api_key="none")

    def _agent(self, tools: list[object]) -> Agent:
        return Agent(model=self._model(), instructions=INSTRUCTIONS, tools=tools, db=InMemoryDb(), **WHOLE)

    def _team(self) -> Team:
        child = Agent(id="child", name="child", model=self._model(), instructions=CHILD_INSTRUCTIONS, telemetry=False)
        return Team(model=self._model(), members=[child], instructions=INSTRUCTIONS, db=InMemoryDb(), **WHOLE)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()

    async def conversation(self, kind: Kind) -> Conversation:
        if kind == "mcp" and self._server is None:
            command, *arguments = self.mcp_command
            parameters = StdioServerParameters(command=command, args=arguments)
            self._server = MCPTools(server_params=parameters, transport="stdio")
            await self._server.connect()
            self._agents[kind] = self._agent([self._server])
        return self._agents[kind], str(next(self._numbers))

    async def turn(self, conversation: Conversation, text: str) -> str:
        agent, session = conversation
        return (await agent.arun(text, session_id=session)).content or ""

    async def cancel(self, conversation: Conversation, turn: asyncio.Task[str]) -> None:
        # Its own `cancel_run` is looked at between two steps only, so a provider that is silent would hold it up.
        turn.cancel()


if __name__ == "__main__":
    serve(Program)
