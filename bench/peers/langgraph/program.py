"""LangGraph: a graph of a model and its tools, with a thread for each conversation in the checkpointer in memory.

In its favour: `durability="exit"`, which writes one checkpoint a turn instead of one a step, and one session of the MCP
server that stays open, where `get_tools` would start a process for every call.
"""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, Kind, Peer, serve
from peer_protocol import big_output as output_of_a_tool

Conversation = tuple[Any, str]
"""The graph and the thread."""


@tool
def big_output() -> str:
    """Return a lot of text."""
    return output_of_a_tool()


class Program(Peer):
    """One compiled graph a kind, shared by its conversations; a conversation is a thread."""

    async def start(self) -> None:
        self._threads = itertools.count()
        self._open = AsyncExitStack()
        self._chat = ChatOpenAI(model="gpt-4.1", base_url=f"{self.url}/v1", api_key="none")
        child = self._graph(CHILD_INSTRUCTIONS, [], checkpointer=None)

        @tool
        async def ask_child(input: str) -> str:
            """Ask another agent."""
            result = await child.ainvoke({"messages": [HumanMessage(input)]})
            return result["messages"][-1].content

        self._graphs = {
            "plain": self._graph(INSTRUCTIONS, []),
            "tool": self._graph(INSTRUCTIONS, [big_output]),
            "delegate": self._graph(INSTRUCTIONS, [ask_child]),
        }

    def _graph(self, instructions: str, tools: list[Any], **options: Any) -> Any:
        model = self._chat.bind_tools(tools) if tools else self._chat
        system = SystemMessage(instructions)

        async def call_model(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke([system, *state["messages"]])]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", call_model)
        graph.add_edge(START, "model")
        if tools:
            graph.add_node("tools", ToolNode(tools))
            graph.add_conditional_edges("model", tools_condition)
            graph.add_edge("tools", "model")
        return graph.compile(**{"checkpointer": InMemorySaver(), **options})

    async def stop(self) -> None:
        await self._open.aclose()

    async def conversation(self, kind: Kind) -> Conversation:
        if kind == "mcp" and kind not in self._graphs:
            command, *arguments = self.mcp_command
            server = {"command": command, "args": arguments, "transport": "stdio"}
            client = MultiServerMCPClient({"bench": server})
            session = await self._open.enter_async_context(client.session("bench"))
            self._graphs[kind] = self._graph(INSTRUCTIONS, await load_mcp_tools(session))
        return self._graphs[kind], str(next(self._threads))

    async def turn(self, conversation: Conversation, text: str) -> str:
        graph, thread = conversation
        config = {"configurable": {"thread_id": thread}}
        result = await graph.ainvoke({"messages": [HumanMessage(text)]}, config, durability="exit")
        return result["messages"][-1].content


if __name__ == "__main__":
    serve(Program)
