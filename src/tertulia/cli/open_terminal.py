"""Opens the terminal for a new or a stored session: the screen, or appended lines where there is none to draw on."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tertulia.cli.global_flags import GlobalFlags
from tertulia.protocol.ids import ItemId

if TYPE_CHECKING:
    from tertulia.session.settings.settings import LoadedSettings
    from tertulia.terminal.port import Port
    from tertulia.terminal.remote_port import RemotePort
    from tertulia.terminal.socket_port import SocketPort

INSTALL = "the full-screen terminal is not installed: pip install 'tertulia[tui]'; this goes on line by line"


def at_terminal() -> bool:
    """Whether a person sits here: standard input and output are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def draws_screen(flags: GlobalFlags) -> bool:
    """Whether the session is shown on a screen; where only the program for it is missing, standard error says so."""
    # The screen is drawn on standard error.
    if flags.plain or not at_terminal() or not sys.stderr.isatty():
        return False
    if find_spec("textual") is None:
        print(f"note: {INSTALL}", file=sys.stderr)
        return False
    return True


def open_new(flags: GlobalFlags, instructions: str | None) -> int:
    """A new session, until the person leaves; returns the exit code.

    `instructions`: the base instructions of its root, or None.
    """
    if draws_screen(flags):
        # Imported here, and the session after the first frame: what stands first is what a person waits for.
        from tertulia.terminal.start import run_terminal

        return run_terminal(_loading(flags), instructions=instructions)
    from tertulia.cli.chat import start_chat

    return start_chat(flags.load(), instructions)


def open_stored(flags: GlobalFlags, session_id: str | None, *, continues: bool = False) -> int:
    """A stored session, or the list of them to choose from, on the screen; returns the exit code.

    `continues`: whether tasks of it that a crash cut go on.
    """
    if session_id is not None:
        return _resume(flags, session_id, continues=continues)
    # Imported here, as above.
    from tertulia.terminal.sessions.picker_screen import PickerApp

    while True:
        picked = PickerApp(lambda: flags.load().environment.home).run()
        if picked is None:
            return 0
        match picked.act:
            case "resume":
                return _resume(flags, picked.session_id, continues=continues)
            case "fork":
                return _resume(flags, _fork(flags, picked.session_id))
            case "watch" if _is_reachable(flags, picked.session_id):
                return attach_session(flags.load(), picked.session_id)
            case _:
                forked = _replay(flags, picked.session_id, follows=picked.act == "watch")
                if forked is not None:
                    return _resume(flags, forked)


def _resume(flags: GlobalFlags, session_id: str, *, continues: bool = False) -> int:
    from tertulia.terminal.start import run_terminal

    return run_terminal(_loading(flags), resumed=session_id, continue_tasks=continues)


def _loading(flags: GlobalFlags) -> Callable[[str | None], LoadedSettings]:
    """Reads the settings for a new session, or for a stored one, which has its own model and directory."""

    def load(session_id: str | None) -> LoadedSettings:
        loaded = flags.load()
        if session_id is None:
            return loaded
        # Imported here: this runs when the first frame stands.
        from msgspec.structs import replace

        from tertulia.cli.session_lookup import ResumeRequest

        return replace(loaded, settings=ResumeRequest.of(flags, loaded, session_id).settings)

    return load


def _fork(flags: GlobalFlags, session_id: str, conversation_id: str = "root", at: ItemId | None = None) -> str:
    import asyncio

    from tertulia.terminal.local_port import fork_stored

    return asyncio.run(fork_stored(flags.load(), session_id, conversation_id, at))


def attach_session(loaded: LoadedSettings, session_id: str) -> int:
    """Show a session that another process of this machine holds; returns the exit code."""

    async def open_port() -> SocketPort:
        from tertulia.terminal.socket_port import SocketPort

        return await SocketPort.open(loaded.environment.home, session_id)

    return show_port(loaded, open_port)


def show_port(loaded: LoadedSettings, connect: Callable[[], Awaitable[RemotePort | SocketPort]]) -> int:
    """Show the session behind a port, as it is there; returns the exit code."""
    # Imported here, as above.
    from tertulia.terminal.device.log_file import ScreenLog
    from tertulia.terminal.start import TerminalApp, show, show_past

    async def open_port(app: TerminalApp, log: ScreenLog) -> Port:
        log.write_to(loaded.environment.home / "logs")
        port = await connect()
        await show_past(app, await port.board())
        return port

    return show(open_port).return_code or 0


def _is_reachable(flags: GlobalFlags, session_id: str) -> bool:
    """Whether a running process lets us see what the session does, and answer it."""
    from tertulia.errors import TertuliaError
    from tertulia.server.sockets.socket_folder import connect

    try:
        connect(flags.load().environment.home, session_id).close()
    except TertuliaError:
        return False
    return True


def _replay(flags: GlobalFlags, session_id: str, *, follows: bool) -> str | None:
    """Go through a session; the id of the copy that is to be gone on with, if one is."""
    from tertulia.terminal.sessions.replay import ReplayApp, ReplayScreen

    home = flags.load().environment.home
    point = ReplayApp(lambda: ReplayScreen(home, session_id, follows=follows)).run()
    return None if point is None else _fork(flags, session_id, point.conversation_id, point.item_id)
