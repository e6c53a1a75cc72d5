"""The application: paints the first frame, then has the session assembled, and shows what its events change.

Nothing here imports the session: the frame and the composer are on the screen before it is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.message import Message
from textual.timer import Timer

from tertulia.errors import ClosedError, InternalError, TertuliaError
from tertulia.events.clock import Clock, SystemClock
from tertulia.events.debug_trace import event_trace
from tertulia.terminal.actions import Actions
from tertulia.terminal.commands.pages import KEYED
from tertulia.terminal.commands.runner import CommandContext, run_command
from tertulia.terminal.device.driver import TerminalDriver
from tertulia.terminal.device.notify import DesktopNotifier
from tertulia.terminal.device.screen_trace import ScreenTrace
from tertulia.terminal.frames import Frame, Frames
from tertulia.terminal.handlers import HANDLERS
from tertulia.terminal.looks.ground import GroundedApp
from tertulia.terminal.looks.keys import bindings, parse_keys
from tertulia.terminal.looks.layout import CSS as LAYOUT
from tertulia.terminal.looks.marks import SETS
from tertulia.terminal.looks.themes import register_themes, use_theme
from tertulia.terminal.navigation import Navigation
from tertulia.terminal.person_actions import PersonActions
from tertulia.terminal.port import Port
from tertulia.terminal.scene import Scene
from tertulia.view.board_state import Changes

if TYPE_CHECKING:
    from tertulia.session.settings.terminal_table import TerminalSettings

Connect = Callable[[], Awaitable[Port]]
"""Returns the port to the session; called after the first frame is painted."""

INTERRUPTED = 130
"""The exit code of a program that was stopped by a signal."""
_AT_ONCE = 200
"""How many events are processed before other tasks of the loop may run."""
_log = logging.getLogger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def _on_each(kinds: Iterable[type[Message]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let one method take the messages of all these kinds."""

    def decorate(method: Callable[..., None]) -> Callable[..., None]:
        for kind in kinds:
            method = on(kind)(method)
        return method

    return decorate


class TerminalApp(GroundedApp):
    """The screen of one session."""

    ENABLE_COMMAND_PALETTE = False
    CSS = LAYOUT
    no_color = False
    """Whether NO_COLOR is set; Textual reads it when the app is made."""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]

    def __init__(self, connect: Connect, *, clock: Clock | None = None, driver: type[Driver] | None = None) -> None:
        """`connect`: returns the port. `clock`: that of this machine if None. `driver`: writes to the terminal."""
        super().__init__(driver_class=driver)
        register_themes(self)
        self.title = "Tertulia"
        self.scene = Scene(self, clock or SystemClock(), lambda: self.scene.run(self.actions.explain()))
        self.actions = Actions(self.scene)
        self.person = PersonActions(self.scene, self.actions)
        self.failure: TertuliaError | None = None
        """Why the session did not start; the program that runs the app prints it."""
        self._connect_port = connect
        self._navigation = Navigation(self.scene, self.actions, self.leave)
        self._context_of_commands = CommandContext(self.scene, self.actions, self.person, self.leave, self.leave_for)
        self._frames = Frames(self, self._paint)
        self._trace = ScreenTrace(self.scene.clock)
        self._seconds: Timer | None = None
        self._leaving = False
        self.next_session: str | None = None
        """The stored session that the person has chosen to resume next."""
        self._at_end: list[Callable[[], None]] = []
        self._notifier = DesktopNotifier(
            lambda codes: self._driver.send(codes) if isinstance(self._driver, TerminalDriver) else None
        )

    @property
    def native_ansi_color(self) -> bool:
        """With NO_COLOR every theme is drawn like the terminal's own, and then without its colours."""
        return self.no_color or super().native_ansi_color

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        panes = self.scene.panes
        yield from (panes.room, panes.rail, panes.body, panes.status)

    def configure(self, look: TerminalSettings, *, editor: str) -> None:
        """Look and work as `[tui]` says; `editor`: the command of the person's own.

        Raises:
            InvalidParamsError: There is no key of a name that was given.
        """
        self.scene.editor = editor
        self.set_keymap(parse_keys(look.keys, KEYED))
        use_theme(self, look.theme)
        self.scene.panes.use_marks(SETS[look.marks])
        if look.vim:
            self.scene.panes.composer.use_vim()
        if not look.mouse and isinstance(self._driver, TerminalDriver):
            self._driver.leave_mouse_to_terminal()

    def watch_title(self, title: str) -> None:
        """Set the window title: the name of the program, with the number of open questions."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.set_title(title)

    # ── the session ──────────────────────────────────────────────────────────────────────────────────────────

    def on_mount(self) -> None:
        """After the first frame: give the composer the focus, and start to load the session."""
        self.scene.arrange()
        self.scene.panes.composer.take_focus()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.leave, INTERRUPTED)
        self.call_after_refresh(self.run_worker, self._run_session(), group="session", exit_on_error=True)

    async def _run_session(self) -> None:
        try:
            port = await self._connect_port()
        except TertuliaError as error:
            self.failure = error
            self.exit(return_code=1)
            return
        self.actions.attach(port)
        if self._leaving:
            await port.close()
            return
        # A resumed session may be on the board already, before any new event.
        self._frames.add(Changes(tree=True))
        board, taken, trace = self.scene.board, 0, event_trace()
        with suppress(ClosedError):
            async for event in port.events(after=board.seq):
                if trace is not None:
                    trace.take(event)
                self._frames.add(board.take(event))
                self._notifier.in_view = self.app_focus
                self._notifier.take(event, board.root_id)
                taken += 1
                if taken % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        if not self._leaving:
            # Another client has closed it, or the process that held it is gone.
            self.scene.say("the session has ended; Ctrl-C twice leaves")

    def _paint(self, frame: Frame) -> None:
        begins, began = self.scene.seen is None, self.scene.clock.monotonic()
        self.scene.paint(frame)
        self._trace.painted(began)
        if begins and self.scene.seen is not None:
            self.scene.run(self.actions.send_waiting())
            self.scene.run(self.actions.describe())
            self.person.show_mode()
        if frame.servers:
            self.scene.run(self.actions.read_servers())
        self._count_seconds()

    def _count_seconds(self) -> None:
        """Run a one-second timer, but only while something on the screen shows a changing time."""
        board = self.scene.board
        if not (board.task_owners or board.questions):
            if self._seconds is not None:
                self._seconds.stop()
                self._seconds = None
        elif self._seconds is None:
            self._seconds = self.set_interval(1.0, self.scene.show_around)

    def at_end(self, work: Callable[[], None]) -> None:
        """Call this when the screen is gone."""
        self._at_end.append(work)

    def finish(self) -> None:
        """Do the work that `at_end` has collected."""
        while self._at_end:
            self._at_end.pop()()

    def leave(self, code: int = 0) -> None:
        """Close the session, then end the program with this code."""
        if self._leaving:
            return
        self._leaving = True
        self.scene.say("closing the session")
        self.run_worker(self._close(code), group="leaving", exit_on_error=True)

    def leave_for(self, session_id: str) -> None:
        """Close the session, then go on with this stored one."""
        self.next_session = session_id
        self.leave()

    async def on_unmount(self) -> None:
        """Close the session, however the application ends."""
        await self.actions.close()

    async def _close(self, code: int) -> None:
        await self.actions.close()
        self.exit(return_code=code)

    def _fatal_error(self) -> None:
        """Log the error. Textual would print a traceback with local variables, which hold texts of the session."""
        _log.error("the screen failed", exc_info=self._exception)
        self.failure = InternalError("the screen failed, and the session was closed; the log of the terminal says why")
        self._close_messages_no_wait()

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────────

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the widgets for the new size, which the app itself knows only later."""
        self.scene.arrange(event.size)

    def action_press(self, name: str) -> None:
        """Do what a global key stands for."""
        if name == "suspend":
            self.action_suspend_process()
        elif name == "sessions":
            self.scene.run(run_command(self._context_of_commands, "resume", ""))
        else:
            self._navigation.press(name)

    async def on_event(self, event: events.Event) -> None:
        """Note every key, wherever it goes: a question never takes the focus while a person types."""
        self._trace.take(event, self)
        if isinstance(event, events.Key):
            self.scene.panes.approvals.key_typed()
        await super().on_event(event)

    @_on_each(HANDLERS)
    def take_message(self, message: Any) -> None:
        """Pass a widget's message about what a person did to its handler."""
        HANDLERS[type(message)](self._context_of_commands, message)
