"""`tertulia app-server`: a session for another program, as JSON-RPC over standard input and output."""

from __future__ import annotations

import asyncio
import sys

import click

from tertulia.apps.global_flags import Given, global_flags
from tertulia.apps.stored import Comeback, find_stored
from tertulia.apps.terminal import Terminal
from tertulia.server.stdio import serve_stdio
from tertulia.session.members import Models

_MORE = """
\b
Examples:
  tertulia app-server -s read-only
  tertulia app-server --resume 3f2a
  printf '%s\\n' '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}' | tertulia app-server
"""


@click.command("app-server", epilog=_MORE)
@click.option("which", "--resume", metavar="ID", help="Serve a stored session instead of a new one.")
@global_flags
@click.pass_obj
def command(given: Given, *, which: str | None) -> int:
    """Serve a session as JSON-RPC over standard input and output.

    One JSON object a line, both ways; standard error is for logs. Ends when standard input does.
    """
    loaded = given.load()
    notes = Terminal(sys.stderr, loaded.environment.variables)
    for warning in loaded.warnings:
        notes.line(("warning", "yellow"), f" {warning}")
    if which is not None:
        comeback = Comeback.of(given, loaded, find_stored(loaded.environment.home, which, last=False))
        return asyncio.run(serve_stdio(comeback.settings, comeback.begin))
    # A model that does not exist is told now, not to the first client.
    models = Models(loaded.settings, loaded.environment)
    models.find(models.choose(loaded.settings.model)[0])
    return asyncio.run(serve_stdio(loaded.settings))
