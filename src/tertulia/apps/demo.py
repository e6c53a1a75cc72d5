"""`tertulia demo`: isolated conversations in one session. Two are played from a script; the third is a real model's,
where one was pulled. Everything else is real."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

import tertulia
from tertulia.apps.demo_stage import Stage
from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.terminal import Terminal
from tertulia.models.local.weights import first_usable_weights
from tertulia.models.wire import AnswerItem, AnswerPiece, ModelRequest, TextDelta, Wire
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import ToolCall
from tertulia.session.handle import Conversation
from tertulia.session.members import ModelCatalogue
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__

_MORE = """
\b
Examples:
  tertulia demo
  tertulia demo -s read-only
  NO_COLOR=1 tertulia demo
"""

_SECRET = "Alba"
_TO_GUIDE = f"Plan my walk from Sol to the Prado. My guest is called {_SECRET}."
_TO_CRITIC = "Plan the same for my guest. And what is the name?"
_PACE_S = 0.025
"""A word's time on a terminal: the eye should be able to follow."""
_ENOUGH = 24
"""After so many words the long answer is interrupted."""


@click.command("demo", epilog=_MORE)
@global_flags
@click.pass_obj
def command(given: Given) -> int:
    """Watch two isolated conversations in one session; needs no key.

    The session is a real one and runs under your settings. Two conversations are played from a script (-m is not
    heeded); a third, which one of them asks, is answered by the embedded model where it was pulled.
    """
    loaded = given.load()
    out = Terminal(sys.stdout, loaded.environment.variables)
    script = ModelCatalogue(loaded.settings, loaded.environment).find(
        f"scripted/{Path(__file__).with_name('demo.json')}"
    )
    weights = first_usable_weights(loaded.environment.home)
    model = Wiretap(script, _PACE_S if out.live else 0, None if weights is None else weights.model)
    # It is about talking: nobody here has anything to run.
    quiet = {"include_apply_patch_tool": False, "shell_mode": "none"}
    switches = {"include_plan_tool": None, "include_conv_tools": None, **quiet}
    settings = replace(loaded.settings, model=model, tools=(distance,), mcp_servers={}, project_servers=(), **switches)
    asyncio.run(_play(settings, model, out))
    return 0


@tertulia.tool
def distance(start: str, end: str) -> str:
    """How far it is from one place to another."""
    return f"{start} to {end}: 1.3 km"


class Wiretap:
    """A wire that remembers what its model was sent last by each conversation, and lets people watch it speak.

    A script cannot know which models there are: where one was pulled, conversations that it opens are given that one.
    """

    def __init__(self, inner: Wire, pace_s: float, colleague: str | None = None) -> None:
        self.name = "scripted/demo"
        self.family = inner.family
        self.context_window = inner.context_window
        self.dialect = inner.dialect
        self.sent: dict[ConversationId, str] = {}
        """Instructions and history, as text."""
        self._inner = inner
        self._pace_s = pace_s
        self._colleague = colleague

    @property
    def colleague(self) -> str:
        """Who answers in the conversations that the script opens, for people."""
        if self._colleague is None:
            return "the same script (`tertulia models pull smollm2` and tertulia[local] put a real model here)"
        return f"{self._colleague}, a real language model on this machine, though a tiny one"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """What the inner wire streams, word by word."""
        self.sent[request.conversation_id] = request.instructions + b",".join(request.chunks).decode()
        async with aclosing(self._inner.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    await asyncio.sleep(self._pace_s)
                yield self._cast(piece)

    def _cast(self, piece: AnswerPiece) -> AnswerPiece:
        match piece:
            case AnswerItem(ToolCall(name="conv_create") as call) if self._colleague is not None:
                arguments = msgspec.json.decode(call.arguments) | {"model": self._colleague}
                return AnswerItem(replace(call, arguments=msgspec.json.encode(arguments).decode()))
            case _:
                return piece

    async def close(self) -> None:
        """Close the inner wire."""
        await self._inner.close()


async def _play(settings: Settings, model: Wiretap, out: Terminal) -> None:
    stage = Stage(out)
    out.line(("Tertulia", "bold"), f" {__version__}: one session holds many isolated conversations. Here are two.")
    async with Session.start(settings) as session:
        guide = session.root
        await guide.set_context(base_instructions="You are the guide: plan, measure, answer.")
        critic = await session.open(
            base_instructions="You are the critic: doubt everything.",
            include_plan_tool=False,
            include_conv_tools=False,
            sandbox="danger-full-access",
            storage_policy="headers_only",
        )
        stage.introduce(guide.id, "guide", "cyan")
        stage.introduce(critic.id, "critic", "magenta")
        for conversation in (guide, critic):
            await _describe(conversation, stage)
        stage.heading("Both get a message at the same time. They share a model and a session, and speak in turn.")
        await asyncio.gather(_talk(guide, _TO_GUIDE, stage), _talk(critic, _TO_CRITIC, stage))
        stage.heading("A task can be stopped at any word.")
        await _talk(guide, "Tell me the history of Madrid.", stage, enough=_ENOUGH)
        stage.heading("One conversation opens another, asks it, and gets exactly one answer.")
        await _talk(guide, "Ask a colleague what coffee is.", stage, newcomer=model.colleague)
        stage.heading("What each of them remembers, and what its model was sent.")
        for conversation in (guide, critic):
            await _remember(conversation, model.sent[conversation.id], stage)


async def _describe(conversation: Conversation, stage: Stage) -> None:
    context = await conversation.context()
    names = [tool.name if tool.source != "conv" else "conv_*" for tool in conversation.tools()]
    tools = ", ".join(dict.fromkeys(names))
    stage.row(conversation.id, "told", context.base_instructions or "")
    stage.row(conversation.id, "has", f"tools: {tools} · storage: {context.storage_policy}")
    for cut in context.narrowed:
        told = f"{cut.field}: asked {cut.asked}, given {cut.given} (by the {cut.because})"
        stage.row(conversation.id, "narrowed", told, "yellow")


async def _talk(
    conversation: Conversation, text: str, stage: Stage, *, enough: int | None = None, newcomer: str = ""
) -> None:
    words = 0
    async for event in conversation.stream(text):
        if event.type == "conversation_opened" and event.conversation_id is not None:
            stage.introduce(event.conversation_id, "other", "green")
            stage.row(event.conversation_id, "is", newcomer)
        stage.show(event)
        words += event.type == "agent_message_delta"
        if words == enough:
            await conversation.interrupt()


async def _remember(conversation: Conversation, sent: str, stage: Stage) -> None:
    for entry in await conversation.history():
        stage.row(conversation.id, entry.role, entry.text or "", "dim")
    verdict = "has" if _SECRET in sent else "does not have"
    stage.row(conversation.id, "proof", f"what its model was sent last {verdict} “{_SECRET}” in it", "bold")
