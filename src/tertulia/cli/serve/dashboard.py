"""`tertulia dashboard`: the page of a running server in the browser; starts a server where none runs."""

from __future__ import annotations

import time

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, whole_number
from tertulia.cli.serve import web
from tertulia.cli.serve.open_page import REMOVED_AFTER_S, find_server, page_address, redirect_file, start_browser
from tertulia.server.http.server import load_or_create_token

_MORE = """
\b
Examples:
  tertulia dashboard
  tertulia dashboard --port 0
"""


@click.command("dashboard", epilog=_MORE)
@click.option(
    "--port", type=whole_number(0, 65535), default=8700, show_default=True, help="Where to serve, if none runs."
)
@global_flags
@click.pass_context
def command(context: click.Context, *, port: int) -> int:
    """Open the dashboard in the browser.

    It is that of a `tertulia serve` of yours that runs. Where none does, a server is started here, until Ctrl-C.
    """
    flags: GlobalFlags = context.obj
    home = flags.load().environment.home
    url = find_server(home)
    if url is None:
        return context.invoke(web.command, port=port, name="127.0.0.1", allow_remote=False, pages=(), opens=True)
    with redirect_file(home, page_address(url, load_or_create_token(home / "serve.token"))) as path:
        if not start_browser(path):
            raise click.ClickException(f"no browser can be started here; `tertulia serve` prints the address of {url}")
        click.echo(f"The dashboard of {url} opens in your browser.")
        # The browser reads the file by itself, and reports to no one that it has.
        time.sleep(min(REMOVED_AFTER_S, 3.0))
    return 0
