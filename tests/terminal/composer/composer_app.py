"""A small application around the composer: a clock that the test moves, and all that the composer posts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from tertulia.terminal.composer.composer import Composer
from tertulia.terminal.text_entry import TextEntry
from tests.terminal.approvals.panel_app import HandClock
from tests.terminal.screen import screen_text

M = TypeVar("M", bound=Message)


class ComposerApp(App[None]):
    """The composer at the bottom of an empty screen."""

    CSS = "Composer { dock: bottom; }"

    def __init__(self, directory: Path | None) -> None:
        super().__init__(ansi_color=True)
        self.clock = HandClock()
        self.composer = Composer(directory, clock=self.clock)
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.composer

    def on_mount(self) -> None:
        self.composer.take_focus()

    def take(self, message: Message) -> None:
        self.posted.append(message)

    on_submitted = on_command_entered = on_shell_entered = on_take_back_requested = on_mode_cycled = take
    on_editor_requested = on_stop_requested = on_earlier_requested = on_files_wanted = on_clipboard_requested = take


class ComposerPilot:
    """Presses keys and pastes, and shows what came of it."""

    def __init__(self, app: ComposerApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.composer = app.composer

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """A text, key by key, without the rest that a pilot takes after each."""
        for character in text:
            self.app.post_message(events.Key(_NAMES.get(character, character), character))
        await self.pilot.pause()
        await self.pilot.pause()

    async def paste(self, text: str) -> None:
        entry = self.app.query_one(TextEntry)
        entry.post_message(events.Paste(text))
        await self.pilot.pause()
        await self.pilot.pause()

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def entry(self) -> TextEntry:
        return self.app.query_one(TextEntry)

    def last(self, kind: type[M]) -> M:
        """The last message, which is one of this kind."""
        message = self.app.posted[-1]
        assert isinstance(message, kind), message
        return message

    def kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.app.posted]


_NAMES: dict[str, Any] = {" ": "space", "/": "slash", "@": "at", "!": "exclamation_mark", ".": "full_stop"}


@asynccontextmanager
async def composer(directory: Path | None = None, size: tuple[int, int] = (80, 16)) -> AsyncIterator[ComposerPilot]:
    app = ComposerApp(directory)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield ComposerPilot(app, pilot)
