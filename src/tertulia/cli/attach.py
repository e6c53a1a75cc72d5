"""`tertulia attach`: the screen of a session that another process holds or serves."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.open_terminal import attach_session, draws_screen, show_port
from tertulia.cli.session_lookup import find_stored_session
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.session.settings.settings import LoadedSettings

if TYPE_CHECKING:
    from tertulia.terminal.remote_port import RemotePort

TOKEN_VARIABLE = "TERTULIA_SERVE_TOKEN"
_SESSION = re.compile(r"[0-9a-fA-F-]+")
"""A session id or its beginning. An address has a dot or a colon."""
_SHOWN = 8
_MORE = f"""
\b
Examples:
  tertulia attach 3f2a
  tertulia attach http://127.0.0.1:8700
  tertulia attach https://box.example:8700 --session 3f2a --token-file ~/box.token
\b
With a URL the token is read from --token-file, else from {TOKEN_VARIABLE}, else from the file that `tertulia serve`
on this machine made. It is never part of the command line or of the address.
"""


@click.command("attach", epilog=_MORE)
@click.argument("where", metavar="ID|URL")
@click.option("which", "--session", metavar="ID", help="With a URL: which of its sessions, or the beginning of its ID.")
@click.option("token_file", "--token-file", metavar="FILE", type=click.Path(dir_okay=False), help="Has the token.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, where: str, which: str | None, token_file: str | None) -> int:
    """Show a session that another process holds, and answer what it asks.

    ID, or its beginning, is a session of this machine: of an `exec`, an editor, another terminal, a server. URL is that
    of a running `tertulia serve`; without --session it is the only one there, or a new one. Leaving leaves the session
    as it is.
    """
    is_session = _SESSION.fullmatch(where) is not None
    if is_session and (which is not None or token_file is not None):
        raise click.UsageError("--session and --token-file go with a URL; an ID names the session already")
    if not draws_screen(flags):
        raise click.UsageError("this needs a terminal to draw on, and the extra: pip install 'tertulia[tui]'")
    loaded = flags.load()
    if is_session:
        return attach_session(loaded, asyncio.run(find_running_session(loaded, where.lower())))
    token = _token(loaded, token_file)

    async def open_port() -> RemotePort:
        from tertulia.terminal.remote_port import RemotePort

        return await RemotePort.open(where, token, which)

    return show_port(loaded, open_port)


async def find_running_session(loaded: LoadedSettings, beginning: str) -> str:
    """The running session whose id begins so; the error says what to do where there is not exactly one."""
    from tertulia.server.sockets.socket_folder import find_reachable

    reachable = [found.session_id for found in await find_reachable(loaded.environment.home)]
    fitting = [session_id for session_id in reachable if session_id.startswith(beginning)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[:_SHOWN]) + (", …" if len(fitting) > _SHOWN else "")
        raise InvalidParamsError(
            f"{len(fitting)} running sessions begin with {beginning} ({shown}); give more of the one you mean"
        )
    stored = find_stored_session(loaded, beginning, last=False)
    raise NotFoundError(
        f"no process that can be reached holds session {stored}; `tertulia resume {stored}` goes on with it here"
    )


def _token(loaded: LoadedSettings, token_file: str | None) -> str:
    variable = loaded.environment.variables.get(TOKEN_VARIABLE)
    if token_file is None and variable:
        return variable
    path = Path(token_file) if token_file is not None else loaded.environment.home / "serve.token"
    try:
        mode, text = os.stat(path).st_mode, path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParamsError(f"{path}: no token can be read: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise InvalidParamsError(f"{path}: others can read it; `chmod 600 {path}` first")
    if not text:
        raise InvalidParamsError(f"{path}: there is no token in it")
    return text
