"""`tertulia mcp add` and `rm`: a server of one's own, written into the user's file or taken out of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.mcp.config_edit import add_table, remove_table
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.session.settings.config_file import read_override

_FAMILY = "mcp_servers"

_MORE_ADD = """
\b
Examples:
  tertulia mcp add time -- uvx mcp-server-time
  tertulia mcp add fs --set share=host -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  tertulia mcp add github --env-var GITHUB_TOKEN -- github-mcp-server stdio
  tertulia mcp add docs --url https://docs.example.com/mcp --bearer-token-env-var DOCS_TOKEN
"""
_MORE_RM = """
\b
Examples:
  tertulia mcp rm time
"""


@click.command("add", epilog=_MORE_ADD, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGUMENT]...]")
@click.option("url", "--url", metavar="URL", help="Reach it at this address, instead of starting a program.")
@click.option("env", "--env", metavar="NAME=VALUE", multiple=True, help="A variable for the program; repeatable.")
@click.option("env_vars", "--env-var", metavar="NAME", multiple=True, help="A variable of yours that it gets, by name.")
@click.option(
    "bearer", "--bearer-token-env-var", metavar="NAME", help="The variable that holds the token for the address."
)
@click.option("more", "--set", metavar="KEY=VALUE", multiple=True, help="Any other key of the table; repeatable.")
@global_flags
@click.pass_obj
def add(given: GlobalFlags, *, name: str, argv: Sequence[str], url: str | None, **options: Any) -> int:
    """Write a server into your config.toml.

    Everything else in the file stays as it is. Nothing is started; `tertulia mcp test NAME` does. A key that should not
    stand in a file is better left in a variable and named.
    """
    loaded = given.load()
    table: dict[str, Any] = {"command": argv[0], "args": list(argv[1:])} if argv else {}
    table |= {"url": url} if url is not None else {}
    table |= {"env": dict(map(_pair, options["env"]))} if options["env"] else {}
    table |= {"env_vars": list(options["env_vars"])} if options["env_vars"] else {}
    table |= {"bearer_token_env_var": options["bearer"]} if options["bearer"] is not None else {}
    for each in options["more"]:
        table |= read_override(each)
    if not table.get("args", True):
        del table["args"]
    server_from_wire(name, table, origin="user")
    path = loaded.environment.config_file
    add_table(path, _FAMILY, name, table)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    out.line((name, "bold"), f" is in {path}; `tertulia mcp test {name}` tries it out")
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # Not repeated: it may be the value alone.
        raise InvalidParamsError("--env takes NAME=VALUE")
    return name, value


@click.command("rm", epilog=_MORE_RM)
@click.argument("name")
@global_flags
@click.pass_obj
def rm(given: GlobalFlags, *, name: str) -> int:
    """Take a server out of your config.toml.

    Comments and everything else stay. A project's server is not yours to remove: `tertulia mcp trust --revoke` forgets
    that it was trusted.
    """
    loaded = given.load()
    path = loaded.environment.config_file
    if not remove_table(path, _FAMILY, name):
        theirs = next((each.source for each in loaded.settings.project_servers if each.name == name), None)
        if theirs is not None:
            raise NotFoundError(
                f"{name} is defined by {theirs}; `tertulia mcp trust --revoke {name}` keeps it from starting"
            )
        raise NotFoundError(f"{path} has no MCP server {name!r}; `tertulia mcp ls` shows what there is")
    TerminalOutput(sys.stdout, loaded.environment.variables).line((name, "bold"), f" is no longer in {path}")
    return 0
