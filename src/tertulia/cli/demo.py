"""`tertulia demo`: isolated conversations in one session.

Two are answered from a script, the third by the embedded model where it was pulled. Everything else is real.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

import click
import msgspec
from msgspec.structs import replace

import tertulia
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import Style, TerminalOutput, one_line_json, shorten
from tertulia.events.journal import NoJournal
from tertulia.models.local.weights import first_usable_weights
from tertulia.models.wire import AnswerItem, AnswerPiece, ModelRequest, TextDelta, Wire
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import ToolCall
from tertulia.session.handle import Conversation
from tertulia.session.members import ModelCatalogue
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__

_BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_MARGIN = 20
_PLAN = "update_plan"
"""Its calls need no line of their own: the plan has one."""


class DemoView:
    """Shows the events of the conversations it knows, and no others."""

    def __init__(self, out: TerminalOutput) -> None:
        self._out = out
        self._width = min(100, shutil.get_terminal_size((100, 24)).columns)
        self._actors: dict[ConversationId | None, tuple[str, Style]] = {}
        self._speech: ItemId | None = None
        """The answer that is being shown, piece by piece."""
        self._column = 0

    def introduce(self, conversation_id: ConversationId, name: str, style: Style) -> None:
        """From now on this conversation's events are shown."""
        self._actors[conversation_id] = (name, style)

    def heading(self, text: str) -> None:
        """What happens next, in a line."""
        self._out.line()
        self._out.line((text, "bold"))

    def row(self, conversation_id: ConversationId, label: str, text: str, style: Style = "plain") -> None:
        """A line about one conversation."""
        self._margin(conversation_id, label)
        self._out.line((shorten(text, self._width - _MARGIN), style))

    def show(self, event: e.Event) -> None:
        """Show one event, where it is worth a line."""
        shower = self._showers.get(type(event.data))
        if shower is not None and event.conversation_id in self._actors:
            shower(self, event.conversation_id, event.data)

    def _margin(self, conversation_id: ConversationId | None, label: str) -> None:
        name, style = self._actors[conversation_id]
        self._out.write("  ", (f"{name:7}", style), (f"{label:>9}  ", "dim"))

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _started(self, conversation_id: ConversationId, data: e.TaskStarted) -> None:
        match data.kind:
            case "user":
                self.row(conversation_id, "you", data.input_preview or "", "bold")
            case "target":
                self.row(conversation_id, "is asked", data.input_preview or "", "bold")
            case "continuation":
                pass

    def _piece(self, conversation_id: ConversationId, data: e.AgentMessageDelta) -> None:
        if self._out.live:
            self._say(conversation_id, data.item_id, data.text)

    def _message(self, conversation_id: ConversationId, data: e.AgentMessage) -> None:
        if self._speech != data.item_id:
            self._say(conversation_id, data.item_id, data.text)
        self._out.line()
        self._speech = None

    def _say(self, conversation_id: ConversationId, item_id: ItemId, text: str) -> None:
        if self._speech != item_id:
            self._speech, self._column = item_id, _MARGIN
            self._margin(conversation_id, "says")
        for word in text.split():
            if self._column + len(word) >= self._width:
                self._out.line()
                self._margin(conversation_id, "")
                self._column = _MARGIN
            space = " " if self._column > _MARGIN else ""
            self._out.write(f"{space}{word}")
            self._column += len(space) + len(word)

    def _plan(self, conversation_id: ConversationId, data: t.PlanUpdate) -> None:
        self.row(conversation_id, "plan", " · ".join(f"{_BOXES[step.status]} {step.step}" for step in data.plan))

    def _call(self, conversation_id: ConversationId, data: t.ToolCallBegin) -> None:
        if data.name != _PLAN:
            self.row(conversation_id, "calls", f"{data.name} {one_line_json(data.arguments)}")

    def _called(self, conversation_id: ConversationId, data: t.ToolCallEnd) -> None:
        if not data.success:
            self.row(conversation_id, "refused", f"{data.name}: {_reason(data.output)}", "red")
        elif data.name != _PLAN:
            self.row(conversation_id, "gets", data.output, "green")

    def _narrowed(self, conversation_id: ConversationId, data: e.BackgroundEvent) -> None:
        self.row(conversation_id, "narrowed", data.message, "yellow")

    def _complete(self, conversation_id: ConversationId, data: e.TaskComplete) -> None:
        self.row(conversation_id, "done", f"{data.usage.total_tokens:,} tokens", "dim")

    def _aborted(self, conversation_id: ConversationId, data: e.TurnAborted) -> None:
        if data.reason == "replaced":
            self.row(conversation_id, "waits", "the other one answers first; then this one goes on", "yellow")
        else:
            self.row(conversation_id, "stopped", f"{data.reason}; what was said so far is kept", "yellow")

    _showers: ClassVar[Mapping[type[e.EventData], Callable[..., None]]] = {
        e.TaskStarted: _started,
        e.AgentMessageDelta: _piece,
        e.AgentMessage: _message,
        t.PlanUpdate: _plan,
        t.ToolCallBegin: _call,
        t.ToolCallEnd: _called,
        e.BackgroundEvent: _narrowed,
        e.TaskComplete: _complete,
        e.TurnAborted: _aborted,
    }


def _reason(output: str) -> str:
    """The sentence in a refusal, which is JSON for the model's sake."""
    try:
        return msgspec.json.decode(output, type=dict[str, Any])["reason"]
    except (msgspec.DecodeError, KeyError):
        return output


_MORE = """
\b
Examples:
  tertulia demo
  tertulia demo -s read-only
  NO_COLOR=1 tertulia demo
"""

_SECRET = "Alba"
_TO_GUIDE = f"Plan my walk from Sol to the Prado. My friend is called {_SECRET}."
_TO_CRITIC = "Plan the same for my friend. And what is the name?"
_PACE_S = 0.025
"""Seconds for each word on a terminal, so that a person can follow."""
_ENOUGH = 24
"""After so many words the long answer is interrupted."""


@click.command("demo", epilog=_MORE)
@global_flags
@click.pass_obj
def command(flags: GlobalFlags) -> int:
    """Watch two isolated conversations in one session; needs no key.

    The session is a real one and runs under your settings. Two conversations are answered from a script (-m is
    ignored); a third, which one of them opens, is answered by the embedded model where it was pulled.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    script = ModelCatalogue(loaded.settings, loaded.environment).find(
        f"scripted/{Path(__file__).with_name('demo.json')}"
    )
    weights = first_usable_weights(loaded.environment.home)
    model = RecordingWire(script, _PACE_S if out.live else 0, None if weights is None else weights.model)
    # It shows conversations, which run no commands.
    quiet = {"include_apply_patch_tool": False, "shell_mode": "none"}
    switches = {"include_plan_tool": None, "include_conv_tools": None, **quiet}
    settings = replace(loaded.settings, model=model, tools=(distance,), mcp_servers={}, project_servers=(), **switches)
    asyncio.run(_play(settings, model, out))
    return 0


@tertulia.tool
def distance(start: str, end: str) -> str:
    """How far it is from one place to another."""
    return f"{start} to {end}: 1.3 km"


class RecordingWire:
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
        await self._inner.close()


async def _play(settings: Settings, model: RecordingWire, out: TerminalOutput) -> None:
    stage = DemoView(out)
    out.line(("Tertulia", "bold"), f" {__version__}: one session holds many isolated conversations. Here are two.")
    async with Session.start(settings, journal=NoJournal()) as session:
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
        stage.heading("Both get a message at the same time. They share a model and answer one after the other.")
        await asyncio.gather(_conversation(guide, _TO_GUIDE, stage), _conversation(critic, _TO_CRITIC, stage))
        stage.heading("A task can be stopped at any word.")
        await _conversation(guide, "Tell me the history of Madrid.", stage, enough=_ENOUGH)
        stage.heading("One conversation opens another, asks it, and gets exactly one answer.")
        await _conversation(guide, "Ask a colleague what coffee is.", stage, newcomer=model.colleague)
        stage.heading("What each of them remembers, and what its model was sent.")
        for conversation in (guide, critic):
            await _remember(conversation, model.sent[conversation.id], stage)


async def _describe(conversation: Conversation, stage: DemoView) -> None:
    context = await conversation.context()
    names = [tool.name if tool.source != "conv" else "conv_*" for tool in conversation.tools()]
    tools = ", ".join(dict.fromkeys(names))
    stage.row(conversation.id, "told", context.base_instructions or "")
    stage.row(conversation.id, "has", f"tools: {tools} · storage: {context.storage_policy}")
    for cut in context.narrowed:
        sentence = f"{cut.field}: asked {cut.asked}, given {cut.given} (by the {cut.because})"
        stage.row(conversation.id, "narrowed", sentence, "yellow")


async def _conversation(
    conversation: Conversation, text: str, stage: DemoView, *, enough: int | None = None, newcomer: str = ""
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


async def _remember(conversation: Conversation, sent: str, stage: DemoView) -> None:
    for entry in await conversation.history():
        stage.row(conversation.id, entry.role, entry.text or "", "dim")
    verdict = "has" if _SECRET in sent else "does not have"
    stage.row(conversation.id, "proof", f"what its model was sent last {verdict} “{_SECRET}” in it", "bold")
