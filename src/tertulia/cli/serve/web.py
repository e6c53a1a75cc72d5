"""`tertulia serve`: sessions over WebSocket, and MCP over HTTP, for programs of this machine or of others."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from importlib.util import find_spec

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags, whole_number
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
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, port: int, name: str, allow_remote: bool, pages: Sequence[str]) -> int:
    """Serve sessions: JSON-RPC at /ws (WebSocket), MCP at /mcp, /health and /openapi.json.

    Prints one line of JSON with `url` and `token_file`. A client sends the token that is in that file. Ends with
    SIGTERM or SIGINT, after every session is closed.
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
        return asyncio.run(_serve(loaded, listening, _hosts(name, allow_remote), origins))


def _hosts(name: str, remote: bool) -> AllowedHosts:
    if not remote:
        return AllowedHosts()
    return AllowedHosts(LOOPBACK | {name.lower(), socket.gethostname().lower()}, addresses=True)


async def _serve(
    loaded: LoadedSettings, listening: socket.socket, hosts: AllowedHosts, origins: frozenset[bytes]
) -> int:
    from tertulia.server.web_app import serve_web_app

    token_at = loaded.environment.home / "serve.token"
    token = load_or_create_token(token_at)
    stop = asyncio.Event()
    with on_stop_signal(stop.set):
        # Not before: a client that has read this line may stop the server, and it must end in good order.
        print(json.dumps({"url": url_of(listening), "token_file": str(token_at)}), flush=True)
        await serve_web_app(loaded.settings, listening, token, stop, hosts, origins=origins)
    return 0


def _require_web_extra() -> None:
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise click.UsageError("this needs the web server: pip install 'tertulia[web]'")
