"""`tertulia serve`: sessions over WebSocket, and MCP over HTTP, for programs of this machine or of others."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, whole_number
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.serve.open_page import REMOVED_AFTER_S, announced, page_address, redirect_file, start_browser
from tertulia.cli.serve.startup import check_model, load_and_warn
from tertulia.cli.stop_signals import on_stop_signal
from tertulia.errors import InvalidParamsError
from tertulia.server.http.guard import LOOPBACK, AllowedHosts, parse_origin
from tertulia.server.http.server import listen, load_or_create_token, url_of
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia serve --port 8700
  tertulia serve --port 0 -s read-only
  tertulia serve --open
\b
With the token in a header, and never in the address:
  curl -H "Authorization: Bearer $(cat ~/.local/share/tertulia/serve.token)" http://127.0.0.1:8700/health
"""


@click.command("serve", epilog=_MORE)
@click.option("--port", type=whole_number(0, 65535), default=8700, show_default=True, help="0 chooses a free one.")
@click.option("name", "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--allow-remote", is_flag=True, help="Listen on an address that other machines can reach.")
@click.option(
    "pages",
    "--allow-origin",
    metavar="ORIGIN",
    multiple=True,
    help="Let pages of this origin call, such as http://localhost:5173; repeatable. They need the token too.",
)
@click.option("opens", "--open", is_flag=True, help="Open the dashboard in the browser.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, port: int, name: str, allow_remote: bool, pages: Sequence[str], opens: bool) -> int:
    """Serve sessions: the dashboard, JSON-RPC at /ws (WebSocket), MCP at /mcp, /health and /openapi.json.

    On a terminal it prints the address of the dashboard; elsewhere one line of JSON with `url` and `token_file`. A
    client sends the token that is in that file. Tasks that a crash cut go on at its start, of conversations with
    on_restart = "continue". Ends with SIGTERM or SIGINT, after every session is closed.
    """
    if f"[{name}]" not in LOOPBACK and name not in LOOPBACK and not allow_remote:
        raise click.UsageError(f"{name} can be reached from other machines; say --allow-remote if that is meant")
    try:
        origins = frozenset(map(parse_origin, pages))
    except InvalidParamsError as error:
        raise click.BadParameter(error.message, param_hint="--allow-origin") from None
    _require_web_extra()
    loaded = load_and_warn(flags)
    check_model(loaded)
    with listen(port, name) as listening:
        return asyncio.run(_serve(loaded, listening, _hosts(name, allow_remote), origins, opens=opens))


def _hosts(name: str, remote: bool) -> AllowedHosts:
    if not remote:
        return AllowedHosts()
    return AllowedHosts(LOOPBACK | {name.lower(), socket.gethostname().lower()}, addresses=True)


async def _serve(
    loaded: LoadedSettings, listening: socket.socket, hosts: AllowedHosts, origins: frozenset[bytes], *, opens: bool
) -> int:
    from tertulia.server.web_app import serve_web_app

    home = loaded.environment.home
    token_at = home / "serve.token"
    token, url = load_or_create_token(token_at), url_of(listening)
    stop = asyncio.Event()
    with on_stop_signal(stop.set), announced(home, url), ExitStack() as cleanup:
        # Not before: a client that has read this line may stop the server, and it must end in good order.
        if sys.stdout.isatty():
            print(
                f"Dashboard: {page_address(url, token)}\nCtrl-C stops the server, and closes every session.", flush=True
            )
        else:
            print(json.dumps({"url": url, "token_file": str(token_at)}), flush=True)
        if opens:
            path = cleanup.enter_context(redirect_file(home, page_address(url, token)))
            # In a thread of its own: a browser in the terminal returns when it is left.
            threading.Thread(target=start_browser, args=(path,), daemon=True).start()
            asyncio.get_running_loop().call_later(REMOVED_AFTER_S, cleanup.close)
        notes = TerminalOutput(sys.stderr, loaded.environment.variables)
        await serve_web_app(
            loaded.settings,
            listening,
            token,
            stop,
            hosts,
            origins=origins,
            tell_cut=lambda line: notes.line(("continue", "dim"), f" {line}"),
        )
    return 0


def _require_web_extra() -> None:
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise click.UsageError("this needs the web server: pip install 'tertulia[web]'")
