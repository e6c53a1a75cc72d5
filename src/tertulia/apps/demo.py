"""`tertulia demo`: isolated conversations in one session. Two are played from a script; the third is a real model's,
where one was pulled. Everything else is real."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import click
from msgspec.structs import replace

import tertulia
from tertulia.apps.demo_stage import Stage
from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.terminal import Terminal
from tertulia.models.weights import Weights, embedded
from tertulia.models.wire import Piece, Request, TextDelta, Wire
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import TextInput
from tertulia.session.assembly import Models
from tertulia.session.handle import Conversation
from tertulia.session.session import Session
from tertulia.session.settings import Settings
from tertulia.tools.tool import TargetResult
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
    script = Models(loaded.settings, loaded.environment).find(f"scripted/{Path(__file__).with_name('demo.json')}")
    model = Wiretap(script, _PACE_S if out.live else 0)
    colleague = Colleague(embedded(loaded.environment.home))
    tools = (distance, colleague.tool)
    settings = replace(loaded.settings, model=model, tools=tools, mcp_servers={}, include_plan_tool=None)
    asyncio.run(_play(settings, model, colleague, out))
    return 0


@tertulia.tool
def distance(start: str, end: str) -> str:
    """How far it is from one place to another."""
    return f"{start} to {end}: 1.3 km"


class Colleague:
    """A conversation that the guide may ask: the call is handed over, and its answer comes back as the result."""

    def __init__(self, weights: Weights | None) -> None:
        self.model = None if weights is None else weights.model
        self.conversation_id: ConversationId | None = None
        self.tool = tertulia.tool(
            self._ask, name="ask_colleague", description="Ask a colleague, and wait for the answer."
        )

    @property
    def who(self) -> str:
        """Who answers, for people."""
        if self.model is None:
            return "the same script (`tertulia models pull smollm2` and tertulia[local] put a real model here)"
        return f"{self.model}, a real language model on this machine, though a tiny one"

    async def _ask(self, question: str) -> tertulia.Handoff:
        assert self.conversation_id is not None, "the colleague is introduced first"
        return tertulia.Handoff(self.conversation_id, (TextInput(question),), _heard)


def _heard(result: TargetResult) -> tertulia.Result:
    return tertulia.Result(result.text or result.reason or "no answer", success=result.status == "completed")


class Wiretap:
    """A wire that remembers what its model was sent last by each conversation, and lets people watch it speak."""

    def __init__(self, inner: Wire, pace_s: float) -> None:
        self.name = "scripted/demo"
        self.family = inner.family
        self.context_window = inner.context_window
        self.dialect = inner.dialect
        self.sent: dict[ConversationId, str] = {}
        """Instructions and history, as text."""
        self._inner = inner
        self._pace_s = pace_s

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """What the inner wire streams, word by word."""
        self.sent[request.conversation_id] = request.instructions + b",".join(request.chunks).decode()
        async with aclosing(self._inner.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    await asyncio.sleep(self._pace_s)
                yield piece

    async def close(self) -> None:
        """Close the inner wire."""
        await self._inner.close()


async def _play(settings: Settings, model: Wiretap, colleague: Colleague, out: Terminal) -> None:
    stage = Stage(out)
    out.line(("Tertulia", "bold"), f" {__version__}: one session holds many isolated conversations. Here are two.")
    async with Session.start(settings) as session:
        guide = session.root
        await guide.set_context(base_instructions="You are the guide: plan, measure, answer.")
        critic = await session.open(
            base_instructions="You are the critic: doubt everything.",
            include_plan_tool=False,
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
        stage.heading("One conversation asks another, and gets exactly one answer.")
        await _delegate(session, guide, colleague, stage)
        stage.heading("What each of them remembers, and what its model was sent.")
        for conversation in (guide, critic):
            await _remember(conversation, model.sent[conversation.id], stage)


async def _delegate(session: Session, guide: Conversation, colleague: Colleague, stage: Stage) -> None:
    asked = await session.open(
        base_instructions="You are a colleague. Answer in one short sentence.", model=colleague.model
    )
    colleague.conversation_id = asked.id
    stage.introduce(asked.id, "other", "green")
    stage.row(asked.id, "is", colleague.who)
    await _talk(guide, "Ask your colleague what coffee is.", stage)


async def _describe(conversation: Conversation, stage: Stage) -> None:
    context = await conversation.context()
    tools = ", ".join(tool.name for tool in conversation.tools())
    stage.row(conversation.id, "told", context.base_instructions or "")
    stage.row(conversation.id, "has", f"tools: {tools} · storage: {context.storage_policy}")
    for cut in context.narrowed:
        told = f"{cut.field}: asked {cut.asked}, given {cut.given} (by the {cut.because})"
        stage.row(conversation.id, "narrowed", told, "yellow")


async def _talk(conversation: Conversation, text: str, stage: Stage, enough: int | None = None) -> None:
    words = 0
    async for event in conversation.stream(text):
        stage.show(event)
        words += event.type == "agent_message_delta"
        if words == enough:
            await conversation.interrupt()


async def _remember(conversation: Conversation, sent: str, stage: Stage) -> None:
    for entry in await conversation.history():
        stage.row(conversation.id, entry.role, entry.text or "", "dim")
    verdict = "has" if _SECRET in sent else "does not have"
    stage.row(conversation.id, "proof", f"what its model was sent last {verdict} “{_SECRET}” in it", "bold")
