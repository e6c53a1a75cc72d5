"""`tertulia mcp trust`: shows in full what a project's file would start, and asks the user to allow it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.output.trust_question import offer_trust, revoke_trust
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.mcp.config.project_server import ProjectServer
from tertulia.mcp.config.server_table import server_name_error
from tertulia.mcp.config.trust_store import TrustStore
from tertulia.protocol.name_hints import name_hint
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia mcp trust github
  tertulia -C ~/project mcp trust github --yes
  tertulia mcp trust --revoke github

\b
Exit codes:
  0  it is trusted, or no longer is
  1  there is no such server, or you said no
  2  there is no terminal to ask on
"""


@click.command("trust", epilog=_MORE)
@click.argument("name")
@click.option("sure", "-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("revoke", "--revoke", is_flag=True, help="Trust it no longer.")
@global_flags
@click.pass_obj
def trust(flags: GlobalFlags, *, name: str, sure: bool, revoke: bool) -> int:
    """Let a server start that a project's file defines.

    The definition is shown as it is written, and trusted as it is shown: when anything in it changes it has to be
    trusted again. The program that it starts, and what that runs, is not part of the definition.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    server = _find(loaded, name)
    store = TrustStore(loaded.environment.home)
    if revoke:
        return revoke_trust(store, server, out)
    if (wrong := server_name_error(name)) is not None:
        raise InvalidParamsError(f"{server.source}: {wrong}")
    answer = offer_trust(store, server, out, lambda: _show(server, out), verb="tertulia mcp trust", sure=sure)
    if answer == "trusted":
        _warn_if_unstartable(server, loaded, out)
    return 1 if answer == "refused" else 0


def _find(loaded: LoadedSettings, name: str) -> ProjectServer:
    servers: Sequence[ProjectServer] = loaded.settings.project_servers
    if name in loaded.settings.mcp_servers:
        raise NotFoundError(
            f"{name} is in your own settings and needs no trust; a project's server of that name is ignored"
        )
    # The nearest file counts.
    server = next((server for server in reversed(servers) if server.name == name), None)
    if server is None:
        names = sorted({server.name for server in servers})
        hint = name_hint(name, names) if names else "there is none"
        raise NotFoundError(f"no file of this project defines an MCP server {name!r:.80}; {hint}")
    return server


def _show(server: ProjectServer, out: TerminalOutput) -> None:
    out.line((server.name, "bold"), f", defined by {server.source}:")
    # ASCII alone: nothing in it can look like something else.
    out.line(json.dumps(server.shown, indent=2, ensure_ascii=True, default=str))
    if not server.is_confined:
        out.line(("It runs outside any sandbox, with all that you may do.", "yellow"))
    if server.variables:
        # As JSON spells them: a name is as little to be relied on as the rest.
        out.line((f"It gets these variables of yours: {json.dumps(server.variables)[1:-1]}.", "yellow"))
    if server.widening:
        out.line((f"It asks for more than to be started: {', '.join(server.widening)}.", "yellow"))


def _warn_if_unstartable(server: ProjectServer, loaded: LoadedSettings, out: TerminalOutput) -> None:
    try:
        server.definition(loaded.environment.variables)
    except InvalidParamsError as error:
        out.line(("But it cannot start: ", "yellow"), error.message)
