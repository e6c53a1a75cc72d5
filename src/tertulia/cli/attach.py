"""`tertulia attach`: the screen of a session that another process serves."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.open_terminal import draws_screen
from tertulia.errors import InvalidParamsError
from tertulia.session.settings.settings import LoadedSettings

if TYPE_CHECKING:
    from tertulia.terminal.port import Port

TOKEN_VARIABLE = "TERTULIA_SERVE_TOKEN"
_MORE = f"""
\b
Examples:
  tertulia attach http://127.0.0.1:8700
  tertulia attach https://box.example:8700 --session 3f2a --token-file ~/box.token
\b
The token is read from --token-file, else from {TOKEN_VARIABLE}, else from the file that `tertulia serve` on this
machine made. It is never part of the command line or of the address.
"""


@click.command("attach", epilog=_MORE)
@click.argument("url")
@click.option("which", "--session", metavar="ID", help="Which of its sessions, or the beginning of its ID.")
@click.option("token_file", "--token-file", metavar="FILE", type=click.Path(dir_okay=False), help="Has the token.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, url: str, which: str | None, token_file: str | None) -> int:
    """Show a session of a running `tertulia serve`, and answer what it asks.

    Without --session it is the only one there, or a new one. Leaving leaves the session as it is.
    """
    if not draws_screen(flags):
        raise click.UsageError("this needs a terminal to draw on, and the extra: pip install 'tertulia[tui]'")
    loaded = flags.load()
    token = _token(loaded, token_file)
    # Imported here: most command lines draw no screen.
    from tertulia.terminal.device.log_file import ScreenLog
    from tertulia.terminal.start import TerminalApp, show, show_past

    async def open_port(app: TerminalApp, log: ScreenLog) -> Port:
        from tertulia.terminal.remote_port import RemotePort

        log.write_to(loaded.environment.home / "logs")
        port = await RemotePort.open(url, token, which)
        await show_past(app, await port.board())
        return port

    return show(open_port).return_code or 0


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
