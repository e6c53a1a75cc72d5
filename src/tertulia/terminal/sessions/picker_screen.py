"""The picker as a screen of its own: reads in threads, searches, asks before it deletes, and returns the choice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tertulia.events.clock import Clock, SystemClock
from tertulia.terminal.sessions.picker import Act, SessionPicker, StoredSession
from tertulia.terminal.sessions.screen_app import ReadingScreen, ScreenApp

if TYPE_CHECKING:
    from tertulia.terminal.sessions.stored_list import StoredList


class PickedSession(msgspec.Struct, frozen=True):
    """The chosen session, and what to do with it."""

    session_id: str
    act: Act


class PickerScreen(ReadingScreen[PickedSession | None]):
    """Stored sessions to choose from. The result is the choice; None: the person left the list."""

    CSS = """
    PickerScreen SessionPicker { height: 1fr; }
    PickerScreen Input { height: 1; border: none; padding: 0 1; display: none; }
    PickerScreen Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "search texts", id="picker.search"),
        Binding("escape,q", "leave", "leave the list", id="picker.leave"),
        Binding("y", "confirm", "yes, delete it", id="picker.confirm"),
        Binding("n", "keep", "no, keep it", id="picker.keep"),
    ]

    def __init__(self, home: Path, clock: Clock | None = None, *, own: str | None = None) -> None:
        """`home`: the data directory. `clock`: of this machine if None. `own`: the session that this process has."""
        super().__init__()
        self._own = own
        self._home = home
        self._clock = clock or SystemClock()
        self._picker = SessionPicker()
        self._search = Input(placeholder="", id="search")
        self._search.cursor_blink = False
        self._doomed: str | None = None
        """The session that is deleted if the person says yes."""
        self._searched = False
        """Whether only sessions with a text are listed."""
        self._list: StoredList | None = None

    def compose(self) -> ComposeResult:
        """The list, and the line in which a text is typed."""
        yield self._picker
        yield self._search

    def on_mount(self) -> None:
        """Read the list after the first frame."""
        self._picker.focus()
        self.start_reading(self._read())

    def show_problem(self, text: str) -> None:
        """Show the sentence that says why reading failed."""
        self._picker.ask(text)

    async def _stored(self) -> StoredList:
        if self._list is None:
            # In a thread, because this imports the reader of records.
            self._list = await asyncio.to_thread(_load_list, self._home)
        return self._list

    async def _read(self) -> None:
        stored = await self._stored()
        rows = await asyncio.to_thread(stored.rows)
        self._searched = False
        self._show(rows, f"{len(rows):,} stored session{'' if len(rows) == 1 else 's'}")

    async def _find(self, text: str) -> None:
        stored = await self._stored()
        rows = await asyncio.to_thread(stored.found, text)
        self._searched = True
        self._show(rows, f"{len(rows):,} with {text!r}; / searches again, Esc shows all")

    def _show(self, rows: list[StoredSession], title: str) -> None:
        self._picker.show(rows, self._clock.now(), title)

    @on(SessionPicker.DetailsWanted)
    def _describe(self, message: SessionPicker.DetailsWanted) -> None:
        async def read() -> None:
            stored = await self._stored()
            self._picker.describe(await asyncio.to_thread(stored.details, list(message.ids)))

        self.start_reading(read())

    @on(SessionPicker.SessionChosen)
    def _chosen(self, message: SessionPicker.SessionChosen) -> None:
        if message.act == "delete":
            self._doomed = message.session_id
            self._picker.ask(f"delete {message.session_id[:8]} for good? y yes, n no")
        elif message.act == "resume" and message.session_id != self._own and self._picker.is_in_use(message.session_id):
            self._picker.ask("another process has it: w watches it, f goes on in a copy")
        else:
            self.dismiss(PickedSession(message.session_id, message.act))

    def action_search(self) -> None:
        """Type a text to search for."""
        self._search.display = True
        self._search.value = ""
        self._search.focus()

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        self._search.display = False
        self._picker.focus()
        self.start_reading(self._find(message.value) if message.value.strip() else self._read())

    def action_leave(self) -> None:
        """Leave the search, the question or the list."""
        if self._search.has_focus:
            self._search.display = False
            self._picker.focus()
            self.start_reading(self._read())
        elif self._doomed is not None:
            self.action_keep()
        elif self._searched:
            self.start_reading(self._read())
        else:
            self.dismiss(None)

    def action_keep(self) -> None:
        """Keep the session, after the question whether to delete it."""
        self._doomed = None
        self._picker.ask("")

    def action_confirm(self) -> None:
        """Delete the session, after the question whether to delete it."""
        doomed, self._doomed = self._doomed, None
        if doomed is None:
            return

        async def remove() -> None:
            stored = await self._stored()
            await asyncio.to_thread(stored.remove, doomed)
            self._picker.ask("")
            await self._read()

        self.start_reading(remove())


def _load_list(home: Path) -> StoredList:
    from tertulia.terminal.sessions.stored_list import StoredList

    return StoredList(home)


class PickerApp(ScreenApp[PickedSession]):
    """The picker as an application: for `tertulia resume`, before there is a session."""

    def __init__(self, home: Callable[[], Path]) -> None:
        """`home`: returns the data directory; called in a thread after the first frame."""

        async def make() -> PickerScreen:
            return PickerScreen(await asyncio.to_thread(home))

        super().__init__(make)
