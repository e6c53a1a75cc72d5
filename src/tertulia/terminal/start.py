"""Starts the terminal: the one function that the command line calls."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.terminal.alt_keys import know_alt_keys
from tertulia.terminal.app import TerminalApp
from tertulia.terminal.device.driver import TerminalDriver
from tertulia.terminal.device.farewell import farewell
from tertulia.terminal.device.log_file import ScreenLog
from tertulia.terminal.port import Port
from tertulia.view.board import Board
from tertulia.view.snapshot import read_snapshot

if TYPE_CHECKING:
    from tertulia.session.settings.settings import LoadedSettings


def run_terminal(
    load: Callable[[str | None], LoadedSettings],
    *,
    resumed: str | None = None,
    instructions: str | None = None,
    continue_tasks: bool = False,
) -> int:
    """Show a session until the person leaves.

    Args:
        load: Reads the settings for the stored session of this id, or for a new one; called in a thread, when the
            first frame stands.
        resumed: The id of a stored session to go on with; None: a new one.
        instructions: The base instructions of the root; None: the usual ones.
        continue_tasks: Whether tasks of the stored session that a crash cut go on.

    Returns:
        The exit code of the program.

    Raises:
        TertuliaError: The session could not be started.
    """

    while True:
        app = show(partial(_open_session, load, resumed, instructions, continue_tasks))
        if app.next_session is None:
            return app.return_code or 0
        resumed, instructions, continue_tasks = app.next_session, None, False


async def _open_session(
    load: Callable[[str | None], LoadedSettings],
    resumed: str | None,
    instructions: str | None,
    continue_tasks: bool,
    app: TerminalApp,
    log: ScreenLog,
) -> Port:
    await asyncio.to_thread(importlib.import_module, "tertulia.terminal.local_port")
    from tertulia.session.settings.terminal_table import terminal_from_wire
    from tertulia.terminal.composer.stored_lines import StoredLines
    from tertulia.terminal.local_port import LocalPort, fork_stored

    loaded = await asyncio.to_thread(load, resumed)
    home, variables = loaded.environment.home, loaded.environment.variables
    log.write_to(home / "logs")
    look = terminal_from_wire(loaded.settings.tui)
    editor = variables.get("VISUAL") or variables.get("EDITOR") or "vi"
    app.configure(look, editor=editor)
    app.scene.home = home
    app.scene.fork_stored = partial(fork_stored, loaded)
    lines = StoredLines.of(loaded)
    history = app.scene.panes.composer.sources.history
    history.extend_past(await asyncio.to_thread(lines.load))
    app.at_end(lambda: lines.add(history.fresh))
    if resumed is not None:
        app.scene.board = await asyncio.to_thread(_past_board, home, resumed)
    opening = LocalPort.open(loaded, resumed=resumed, instructions=instructions, continue_tasks=continue_tasks)
    return await opening


def _past_board(home: Path, session_id: str) -> Board:
    """The board of a stored session when it was last open."""
    from tertulia.terminal.sessions.recording import Recording

    recording = Recording.open(home, session_id)
    return recording.board(len(recording.steps) - 1)


async def show_past(app: TerminalApp, board: Any) -> None:
    """Show the board of a server's session, as `session/board` gave it: the events go on from there."""
    app.scene.board = await asyncio.to_thread(lambda: read_snapshot(msgspec.json.encode(board)))


def show(open_port: Callable[[TerminalApp, ScreenLog], Awaitable[Port]]) -> TerminalApp:
    """Show the session behind this port until the person leaves; returns the app after its end."""
    _check_streams()
    know_alt_keys()
    with ScreenLog() as log:
        app = TerminalApp(lambda: open_port(app, log), driver=TerminalDriver)

        async def run() -> None:
            try:
                await app.run_async()
            finally:
                await app.actions.close()
                app.finish()

        asyncio.run(run())
    if app.failure is not None:
        raise app.failure
    sys.stdout.write(farewell(app.scene.board, stored=app.scene.stored))
    sys.stdout.flush()
    return app


def _check_streams() -> None:
    """Refuse standard streams that are no terminal: Textual draws on standard error, so nothing would be seen."""
    for stream, name, mistake in (
        (sys.__stderr__, "standard error", "2>file"),
        (sys.__stdin__, "standard input", "<file"),
    ):
        if stream is None or stream.closed or not stream.isatty():
            raise InvalidParamsError(
                f"{name} is no terminal ({mistake}?), and the screen needs it: leave it, or use `tertulia exec`"
            )
