"""The application: paints first, then has the session assembled, and shows what its events change.

Nothing here imports the session: the frame and the composer stand before that is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from tertulia.errors import ClosedError, TertuliaError
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.actions import Actions
from tertulia.terminal.frames import Frame, Frames
from tertulia.terminal.panels.status import StatusLine
from tertulia.terminal.panels.tree import ConversationTree
from tertulia.terminal.port import Port
from tertulia.terminal.stand_ins import PlainComposer, PlainTranscript
from tertulia.view.board import Board

Connect = Callable[[], Awaitable[Port]]
"""Gives the port to the session; called when the first frame stands."""

_AT_ONCE = 200
"""Events that are taken before the loop does other things."""


class TerminalApp(App[int]):
    """The screen of one session."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #body { height: 1fr; }
    #tree { width: 28; height: 1fr; }
    #middle { width: 1fr; height: 1fr; }
    #transcript { height: 1fr; }
    #composer { height: 1; border: none; padding: 0 1; }
    #composer:focus { border: none; }
    #status { height: 1; }
    #notice { height: auto; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "leave", "quit", priority=True, show=False)]

    def __init__(self, connect: Connect) -> None:
        super().__init__(ansi_color=True)
        self.board = Board()
        self.seen: ConversationId | None = None
        self.failure: TertuliaError | None = None
        """Why the session did not start; for the program that runs the app to say."""
        self._connect_port = connect
        self._actions = Actions()
        self._frames = Frames(self, self._paint)

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        with Horizontal(id="body"):
            yield ConversationTree(id="tree")
            with Vertical(id="middle"):
                yield PlainTranscript(id="transcript")
                yield Static(id="notice", markup=False)
                composer = PlainComposer(id="composer")
                composer.cursor_blink = False
                yield composer
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """The frame stands: what is typed goes to the composer, and the session may be loaded."""
        self.query_one(PlainComposer).focus()
        self.call_after_refresh(self.run_worker, self._run_session(), exit_on_error=True)

    async def _run_session(self) -> None:
        try:
            port = await self._connect_port()
        except TertuliaError as error:
            self.failure = error
            self.exit(return_code=1)
            return
        await self._actions.attach(port)
        taken = 0
        with suppress(ClosedError):
            async for event in port.events(after=0):
                self._frames.add(self.board.take(event))
                taken += 1
                if taken % _AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _paint(self, frame: Frame) -> None:
        if self.seen is None and self.board.root_id is not None:
            self._see(self.board.root_id)
            self.run_worker(self._actions.send_waiting(self.board.root_id))
        if self.seen in frame.conversations:
            self.query_one(PlainTranscript).changed()
        if frame.tree:
            self.query_one(ConversationTree).show(self.board, self.seen)
        self.query_one(StatusLine).show(self.board, self.seen)

    def _see(self, conversation_id: ConversationId) -> None:
        view = self.board.conversations.get(conversation_id)
        if view is not None:
            self.seen = conversation_id
            self.query_one(PlainTranscript).show(view)

    def on_plain_composer_sent(self, message: PlainComposer.Sent) -> None:
        """A person has written a message to the seen conversation."""
        self.run_worker(self._do(self._actions.send(self.seen, message.text)))

    async def _do(self, action: Awaitable[None]) -> None:
        """Do something, and show why where it was refused."""
        notice = self.query_one("#notice", Static)
        try:
            await action
        except TertuliaError as error:
            notice.update(error.message)
            notice.display = True
        else:
            notice.display = False

    async def action_leave(self) -> None:
        """Close the session and end the program."""
        if self._actions.port is not None:
            await self._actions.port.close()
        self.exit(0)
