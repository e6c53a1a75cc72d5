"""An application that shows one screen and ends with its result: for screens that come before there is a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tertulia.errors import TertuliaError

T = TypeVar("T")


class ReadingScreen(Screen[T]):
    """A screen that reads records beside the event loop, and shows the reason where that fails."""

    def start_reading(self, work: Awaitable[None]) -> None:
        """Do this in the background; a TertuliaError is shown as its sentence."""
        self.run_worker(self._guarded(work), exit_on_error=True)

    def show_problem(self, text: str) -> None:
        """Show the sentence that says why reading failed."""
        raise NotImplementedError

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except TertuliaError as error:
            self.show_problem(error.message)


class ScreenApp(App[T]):
    """Leaving the screen, or Ctrl+C, ends it."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", "leave", priority=True, show=False)]

    def __init__(self, make: Callable[[], Awaitable[Screen[T | None]]]) -> None:
        """`make`: returns the screen; called after the first frame."""
        super().__init__(ansi_color=True)
        self._make = make

    def on_mount(self) -> None:
        """Show the screen after the first frame."""
        self.run_worker(self._show(), exit_on_error=True)

    async def _show(self) -> None:
        self.exit(await self.push_screen_wait(await self._make()))
