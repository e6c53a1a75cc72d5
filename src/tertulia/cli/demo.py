"""`tertulia demo`: isolated conversations in one session, an undo in another, and three that work at once in a third.

They are answered from a script, one of them by the embedded model where it was pulled. Everything else is real.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

import tertulia
from tertulia.cli.demo_view import DemoView
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import Style, TerminalOutput
from tertulia.errors import TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.models.local.weights import first_usable_weights
from tertulia.models.wire import AnswerItem, AnswerPiece, ModelRequest, TextDelta, Wire
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import ToolCall
from tertulia.scheduler.nursery import Nursery
from tertulia.session.handle import Conversation
from tertulia.session.members import ModelCatalogue
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.tools.function import FunctionTool
from tertulia.version import __version__

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
    """Watch isolated conversations, also three at once, and an undo; needs no key.

    The sessions are real ones and run under your settings. Conversations are answered from a script (-m is
    ignored); one, which another of them opens, is answered by the embedded model where it was pulled.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    script = ModelCatalogue(loaded.settings, loaded.environment).find(
        f"scripted/{Path(__file__).with_name('demo.json')}"
    )
    weights = first_usable_weights(loaded.environment.home)
    model = RecordingWire(script, _PACE_S if out.live else 0, None if weights is None else weights.model)
    # It shows conversations, which run no commands.
    quiet = {"include_apply_patch_tool": False, "shell_mode": "none", "checkpoints": False}
    switches = {"include_plan_tool": None, "include_conv_tools": None, **quiet}
    settings = replace(loaded.settings, model=model, tools=(distance,), mcp_servers={}, project_servers=(), **switches)
    asyncio.run(_play(settings, model, out))
    return 0


@tertulia.tool(read_only=True)
def distance(start: str, end: str) -> str:
    """How far it is from one place to another."""
    return f"{start} to {end}: 1.3 km"


class RecordingWire:
    """A wire that remembers the last request of each conversation, and slows answers down for people to watch.

    A script cannot know which models there are: where one was pulled, a conversation that it opens without a title is
    given that one.
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
                arguments = msgspec.json.decode(call.arguments)
                if "title" in arguments:
                    return piece
                arguments["model"] = self._colleague
                return AnswerItem(replace(call, arguments=msgspec.json.encode(arguments).decode()))
            case _:
                return piece

    async def close(self) -> None:
        await self._inner.close()


async def _play(settings: Settings, model: RecordingWire, out: TerminalOutput) -> None:
    view = DemoView(out)
    out.line(("Tertulia", "bold"), f" {__version__}: one session holds many isolated conversations.")
    async with Session.start(replace(settings, slots=1), journal=NoJournal()) as session:
        guide = session.root
        await guide.set_context(base_instructions="You are the guide: plan, measure, answer.")
        critic = await session.open(
            base_instructions="You are the critic: doubt everything.",
            include_plan_tool=False,
            include_conv_tools=False,
            sandbox="danger-full-access",
            storage_policy="headers_only",
        )
        view.introduce(guide.id, "guide", "cyan")
        view.introduce(critic.id, "critic", "magenta")
        for conversation in (guide, critic):
            await _describe(conversation, view)
        view.heading("Both get a message at once. With one slot they answer one after the other.")
        await asyncio.gather(_conversation(guide, _TO_GUIDE, view), _conversation(critic, _TO_CRITIC, view))
        view.heading("A task can be stopped at any word.")
        await _conversation(guide, "Tell me the history of Madrid.", view, enough=_ENOUGH)
        view.heading("One conversation opens another, asks it, and gets exactly one answer.")
        await _conversation(guide, "Ask a colleague what coffee is.", view, newcomer=model.colleague)
        view.heading("What each of them remembers, and what its model was sent.")
        for conversation in (guide, critic):
            await _remember(conversation, model.sent[conversation.id], view)
    view.heading("What a task did to files can be taken back.")
    with tempfile.TemporaryDirectory() as folder:
        await undo_a_note(settings, view, Note(folder))
    view.heading("With three slots one asks three at once, and waits for the slowest of them.")
    await ask_colleagues(settings, view)


async def _describe(conversation: Conversation, view: DemoView) -> None:
    context = await conversation.context()
    names = [tool.name if tool.source != "conv" else "conv_*" for tool in conversation.tools()]
    tools = ", ".join(dict.fromkeys(names))
    view.row(conversation.id, "told", context.base_instructions or "")
    view.row(conversation.id, "has", f"tools: {tools} · storage: {context.storage_policy}")
    for cut in context.narrowed:
        sentence = f"{cut.field}: asked {cut.asked}, given {cut.given} (by the {cut.because})"
        view.row(conversation.id, "narrowed", sentence, "yellow")


async def _conversation(
    conversation: Conversation, text: str, view: DemoView, *, enough: int | None = None, newcomer: str = ""
) -> None:
    words = 0
    async for event in conversation.stream(text):
        if event.type == "conversation_opened" and event.conversation_id is not None:
            view.introduce(event.conversation_id, "other", "green")
            view.row(event.conversation_id, "is", newcomer)
        view.show(event)
        words += event.type == "agent_message_delta"
        if words == enough:
            await conversation.interrupt()


async def _remember(conversation: Conversation, sent: str, view: DemoView) -> None:
    for entry in await conversation.history():
        view.row(conversation.id, entry.role, entry.text or "", "dim")
    verdict = "has" if _SECRET in sent else "does not have"
    view.row(conversation.id, "proof", f"what its model was sent last {verdict} “{_SECRET}” in it", "bold")


class Note:
    """A file that a conversation may write over."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self._path = Path(self.folder, "meeting.txt")
        self._path.write_text("Sol, at ten\n")

    @property
    def text(self) -> str:
        """What the file says now."""
        return self._path.read_text().strip()

    def tool(self) -> FunctionTool[[str], str]:
        """The tool that writes it."""

        @tertulia.tool
        def note(text: str) -> str:
            """Write the note anew, whole."""
            self._path.write_text(f"{text}\n")
            return f"{self._path.name}: {text}"

        return note


async def undo_a_note(settings: Settings, view: DemoView, note: Note) -> None:
    """In a session in a directory of its own, a task writes over a file, and that is undone."""
    # What is recorded lies in memory, and is gone with the session.
    fields = {"cwd": note.folder, "storage_policy": "none", "checkpoints": {"in_memory": True}}
    async with Session.start(replace(settings, tools=(note.tool(),), **fields), journal=NoJournal()) as session:
        view.introduce(session.root.id, "writer", "blue")
        await session.root.set_context(base_instructions="You are the writer: note what is agreed.")
        await _conversation(session.root, "Write down that we meet at the Prado.", view)
        try:
            answer = await session.root.undo()
        except TertuliaError as error:
            # Without git, or where this session may write no file.
            view.row(session.root.id, "no undo", error.message, "yellow")
            return
        files = ", ".join(file.path for file in answer.files)
        view.row(session.root.id, "undone", f"{files} says again: {note.text}", "green")


_QUESTION = "Ask three colleagues about our evening."
_STYLES: tuple[Style, ...] = ("green", "yellow", "blue")
_TICK_S = 0.1


class ColleaguesView:
    """Shows which conversations work and for how long, and each answer when it is complete."""

    def __init__(self, view: DemoView, caller: ConversationId) -> None:
        self._view = view
        self._caller = caller
        self._now = SystemClock().monotonic
        self._began = self._now()
        self._names: dict[ConversationId | None, str] = {}
        self._since: dict[ConversationId | None, float] = {}
        """Those who work, with the moment in which they began."""
        self._worked = 0.0
        """Seconds that all of them took, added up."""

    async def tick(self) -> None:
        """Show again and again how long each has been at work."""
        while True:
            self._show_work()
            await asyncio.sleep(_TICK_S)

    def show(self, event: e.Event) -> None:
        """Show one event of the chain, where it is worth a line."""
        who = event.conversation_id
        match event.data:
            case e.AgentMessageDelta() if who != self._caller:
                # Pieces of three answers would mingle.
                return
            case t.ToolCallBegin() | t.ToolCallEnd():
                return
            case e.ConversationOpened(title=title) if who is not None:
                self._names[who] = title or ""
                self._view.introduce(who, self._names[who], _STYLES[len(self._names) % len(_STYLES)])
            case e.TurnAborted("replaced") if who is not None:
                self._line(who, "waits", "for three answers, and takes no slot meanwhile")
            case e.TaskComplete() if who is not None:
                self._line(who, "done", self._time_of(who))
            case e.TaskStarted(kind="target"):
                self._since[who] = self._now()
                self._show(event)
            case _:
                self._show(event)

    def _show(self, event: e.Event) -> None:
        self._view.status()
        self._view.show(event)

    def _line(self, who: ConversationId, label: str, text: str) -> None:
        self._view.status()
        self._view.row(who, label, text, "dim")

    def _time_of(self, who: ConversationId) -> str:
        if who == self._caller:
            return f"{self._now() - self._began:.1f} s in all; one after the other they take {self._worked:.1f} s"
        seconds = self._now() - self._since.pop(who)
        self._worked += seconds
        return f"after {seconds:.1f} s"

    def _show_work(self) -> None:
        now = self._now()
        working = [f"{self._names[who]} {now - since:.1f} s" for who, since in self._since.items()]
        if working:
            self._view.status(f"at work: {' · '.join(working)}")


async def ask_colleagues(settings: Settings, view: DemoView) -> None:
    """In a session with three slots, a conversation asks three new ones in one answer."""
    nursery = Nursery()
    async with Session.start(replace(settings, slots=3), journal=NoJournal()) as session:
        guide = session.root
        await guide.set_context(base_instructions="You are the guide: plan, measure, answer.")
        view.introduce(guide.id, "guide", "cyan")
        colleagues = ColleaguesView(view, guide.id)
        nursery.start(colleagues.tick(), "elapsed times")
        try:
            async for event in guide.stream(_QUESTION):
                colleagues.show(event)
        finally:
            await nursery.close(1.0)
