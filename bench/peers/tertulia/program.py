"""Tertulia from this checkout, through its Python API: one session, and conversations in it.

The built-in tools are switched off where the work needs none, so that the same is sent as by the other peers. The
variant `no-record` stores nothing, as the other peers do by default; without it every event is in the session's store
before it is told, which no other peer here does unless it is asked to. The variant `full` also waits for the disk, so
that not even a loss of power takes away what was told.
"""

from __future__ import annotations

import asyncio
import os
import tempfile

from peer_protocol import INSTRUCTIONS, WORK, Kind, Peer, big_output, serve

import tertulia
from tertulia.events.journal import NoJournal
from tertulia.models.catalog import ModelProvider

BARE = {"include_plan_tool": False, "include_apply_patch_tool": False, "shell_mode": "none"}
# W8: limits raised, as the work says.
UNLIMITED = {"max_task_interrupts": None, "max_chain_conversations": None, "max_conversations": None}


@tertulia.tool
def output() -> str:
    """Return a lot of text."""
    return big_output()


class Program(Peer):
    """A conversation is a `tertulia.Conversation` of one session."""

    delegate_call = ("conv_create", {"user_instruction": WORK})
    tool_call = ("output", {})

    async def start(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="compare-")
        os.environ["TERTULIA_HOME"] = self._home.name
        command, *arguments = self.mcp_command
        settings = tertulia.Settings(
            model="mock/gpt-4.1",
            model_providers={"mock": ModelProvider(base_url=f"{self.url}/v1", wire="chat")},
            mcp_servers={"bench": {"command": command, "args": arguments, "approval": "approve"}},
            limits=UNLIMITED,
            slots=100,
            durability="full" if self.variant == "full" else "normal",
        )
        self._session = tertulia.Session.start(settings, journal=NoJournal() if self.variant == "no-record" else None)
        await self._session.__aenter__()

    async def stop(self) -> None:
        await self._session.close()
        self._home.cleanup()

    async def conversation(self, kind: Kind) -> tertulia.Conversation:
        return await self._session.open(
            base_instructions=INSTRUCTIONS,
            include_conv_tools=kind == "delegate",
            mcp_tool_allowlist=["bench__*"] if kind == "mcp" else [],
            tools=[output] if kind == "tool" else [],
            **BARE,
        )

    async def turn(self, conversation: tertulia.Conversation, text: str) -> str:
        reply = await conversation.message(text)
        return reply.raise_for_status().text or "" if reply.status != "interrupted" else "interrupted"

    async def cancel(self, conversation: tertulia.Conversation, turn: asyncio.Task[str]) -> None:
        await conversation.interrupt()


if __name__ == "__main__":
    serve(Program)
