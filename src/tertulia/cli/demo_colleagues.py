"""The part of the demo in which three colleagues work side by side: how long each takes, and all of them together."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from tertulia.cli.demo_view import DemoView
from tertulia.cli.output.terminal import Style
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId
from tertulia.scheduler.nursery import Nursery
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_QUESTION = "Ask three colleagues about our evening."
_STYLES: tuple[Style, ...] = ("green", "yellow", "blue")
_TICK_S = 0.1


class ColleaguesView:
    """Shows who works and for how long already, and each answer whole when it is there."""

    def __init__(self, stage: DemoView, caller: ConversationId) -> None:
        self._stage = stage
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
                self._stage.introduce(who, self._names[who], _STYLES[len(self._names) % len(_STYLES)])
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
        self._stage.status()
        self._stage.show(event)

    def _line(self, who: ConversationId, label: str, text: str) -> None:
        self._stage.status()
        self._stage.row(who, label, text, "dim")

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
            self._stage.status(f"at work: {' · '.join(working)}")


async def ask_colleagues(settings: Settings, stage: DemoView) -> None:
    """In a session with three slots, a conversation asks three new ones in one answer."""
    nursery = Nursery()
    async with Session.start(replace(settings, slots=3), journal=NoJournal()) as session:
        guide = session.root
        await guide.set_context(base_instructions="You are the guide: plan, measure, answer.")
        stage.introduce(guide.id, "guide", "cyan")
        view = ColleaguesView(stage, guide.id)
        nursery.start(view.tick(), "elapsed times")
        try:
            async for event in guide.stream(_QUESTION):
                view.show(event)
        finally:
            await nursery.close(1.0)
