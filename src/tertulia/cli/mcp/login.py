"""`tertulia mcp login` and `logout`: logs in to a server by OAuth in the user's browser, and forgets the login."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable, Mapping
from threading import Thread
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.mcp.status import find_server, load_configured_servers, server_redactor
from tertulia.cli.output.tables import format_count
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import InvalidParamsError, McpError, NotFoundError, StorageError
from tertulia.events.clock import SystemClock
from tertulia.mcp.client.connection import connect
from tertulia.mcp.config.definition import Http, ServerDefinition
from tertulia.mcp.config.launch import Launch, resolve_launch
from tertulia.mcp.login.login_store import LoginStore, StoredLogin
from tertulia.mcp.login.loopback import LoopbackBrowser
from tertulia.mcp.server_connection import ConnectionServices
from tertulia.package_loading import load_package
from tertulia.protocol.tool_events import server_status_text
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tertulia.session.mcp.configured_servers import ConfiguredServers
from tertulia.session.settings.network import network_access
from tertulia.session.settings.settings import LoadedSettings

_MORE_LOGIN = """
\b
Examples:
  tertulia mcp add tracker --url https://mcp.tracker.example/mcp
  tertulia mcp login tracker
  tertulia mcp login tracker --no-browser
  tertulia mcp login tracker --scope issues:write

\b
Exit codes:
  0  you are logged in, or the server wants no login
  1  the login failed; an earlier one stays
  2  usage or configuration
"""
_MORE_LOGOUT = """
\b
Examples:
  tertulia mcp logout tracker
"""
_PATIENCE_S = 8.0
_WITHIN_S = 300.0


@click.command("login", epilog=_MORE_LOGIN)
@click.argument("name")
@click.option("browser", "--browser/--no-browser", default=True, help="Open the page, or only print its address.")
@click.option("scopes", "--scope", metavar="SCOPE", multiple=True, help="Ask for this right; repeatable.")
@click.option(
    "within_s", "--within", metavar="SECONDS", type=click.FloatRange(1, 3600), default=_WITHIN_S, show_default=True,
    help="How long to wait for you.",
)  # fmt: skip
@global_flags
@click.pass_obj
def login(flags: GlobalFlags, *, name: str, browser: bool, scopes: tuple[str, ...], within_s: float) -> int:
    """Log in to a server in your browser.

    The address is printed, and opened where there is a browser. The browser comes back to this program, on this
    machine. The login is kept in the system's keyring, where there is one that works and `tertulia[keyring]` is
    installed, else in a file in the data directory that only you can read; sessions use and renew it.
    """
    loaded = flags.load()
    variables = loaded.environment.variables
    out, notes = TerminalOutput(sys.stdout, variables), TerminalOutput(sys.stderr, variables)
    servers = load_configured_servers(loaded)
    definition = _definition(servers, name)
    launch = _launch(definition, loaded, scopes)
    store = LoginStore(loaded.environment.home, variables)
    before = _readable(store, name)

    def show(address: str) -> None:
        notes.line("Log in here: ", (address, "bold"))
        notes.line((f"Waiting for your browser for {within_s:g} s at most; Ctrl+C stops.", "dim"))
        if browser and _has_browser(variables):
            # Some browsers return when they are closed.
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    try:
        tools = asyncio.run(_log_in(definition, launch, store, show, within_s))
    except McpError as error:
        notes.line(("error", "red"), f" {server_redactor(loaded, servers).text(error.message)}")
        return 1
    after = store.read(name)
    if after is None or after == before:
        out.line((name, "bold"), f" wants no login: {format_count(tools, 'tool')}. Nothing was kept.")
        return 0
    where = "the system's keyring" if store.place(name) == "keyring" else f"{store.path}, which only you can read"
    out.line("Logged in to ", (name, "bold"), f": {format_count(tools, 'tool')}{_rights(after)}. Kept in {where}.")
    if not loaded.settings.stored_keys:
        notes.line(("note", "yellow"), " `stored_keys` is false in your settings: no login is used.")
    return 0


@click.command("logout", epilog=_MORE_LOGOUT)
@click.argument("name")
@global_flags
@click.pass_obj
def logout(flags: GlobalFlags, *, name: str) -> int:
    """Forget the login to a server.

    It is removed from the system's keyring or from our file, and revoked where the server takes that.
    """
    loaded = flags.load()
    variables = loaded.environment.variables
    store = LoginStore(loaded.environment.home, variables)
    if name not in store.names():
        names = ", ".join(store.names()) or "none"
        raise NotFoundError(f"there is no login to {name!r:.80}; logins there are: {names}")
    stored = _readable(store, name)
    store.remove(name)
    end = ", and revoked there" if stored is not None and asyncio.run(_revoke(stored, name, loaded)) else ""
    out = TerminalOutput(sys.stdout, variables)
    out.line("The login to ", (name, "bold"), f" is removed{end}.")
    if not end:
        out.line(("Where others may know it, revoke it at the server too.", "dim"))
    return 0


def _definition(servers: ConfiguredServers, name: str) -> ServerDefinition:
    server = find_server(servers, name)
    if isinstance(server, ServerDefinition):
        return server
    if server.definition is None or server.status == "untrusted":
        raise McpError(server_status_text(name, server.status, server.error))
    return server.definition


async def _revoke(login: StoredLogin, name: str, loaded: LoadedSettings) -> bool:
    await asyncio.to_thread(load_package, "MCP servers need", "mcp", "httpx2")
    from tertulia.mcp.client.http_transport import connections_of
    from tertulia.mcp.login.revocation import revoke

    # By the same way as the server itself, which may have left the settings meanwhile.
    definition = ServerDefinition(name=name, transport=Http(url=login.url))
    access = network_access(loaded.settings, loaded.environment)
    return await revoke(login, connections_of(resolve_launch(definition, {}, None, access)))


def _launch(definition: ServerDefinition, loaded: LoadedSettings, scopes: tuple[str, ...]) -> Launch:
    name = definition.name
    if not isinstance(definition.transport, Http):
        raise InvalidParamsError(f"{name} is a program that we start; there is a login only to a server with url")
    access = network_access(loaded.settings, loaded.environment)
    launch = resolve_launch(definition, loaded.environment.variables, None, access)
    if launch.oauth is None:
        raise InvalidParamsError(
            f"{name} has its credentials in the settings already (bearer_token_env_var or an Authorization header); "
            "take them out to log in"
        )
    wanted = tuple(dict.fromkeys((*launch.oauth.scopes, *scopes)))
    return replace(launch, oauth=replace(launch.oauth, scopes=wanted))


async def _log_in(
    definition: ServerDefinition, launch: Launch, store: LoginStore, show: Callable[[str], None], within_s: float
) -> int:
    """Log in and list the tools; how many there are."""
    nursery, clock = Nursery(), SystemClock()
    sandbox = Sandbox(clock=clock)
    assert launch.oauth is not None
    port = launch.oauth.callback_port or _registered_port(_readable(store, definition.name, launch.url))
    try:
        async with LoopbackBrowser(port, show, within_s=within_s) as page:
            services = ConnectionServices(sandbox, nursery.start, clock, lambda: None, store, page)
            link = await connect(definition, launch, services)
            try:
                return len((await link.list_tools()).tools)
            finally:
                await link.close()
    finally:
        await nursery.close(_PATIENCE_S)
        await sandbox.close()


def _readable(store: LoginStore, name: str, url: str | None = None) -> StoredLogin | None:
    """The login that is kept; None as well where it was in a keyring that does not give it. StorageError where the file
    cannot be relied on.
    """
    if name not in store.names():
        return None
    try:
        return store.read(name, url)
    except StorageError:
        return None


def _registered_port(earlier: StoredLogin | None) -> int:
    """The port of the listener that was registered with an earlier login: some servers take no other."""
    addresses: list[str] = [] if earlier is None else earlier.client.get("redirect_uris") or []
    return next((urlsplit(address).port or 0 for address in addresses), 0)


def _has_browser(variables: Mapping[str, str]) -> bool:
    """Whether one can be opened where a person sees it. A browser of the terminal would take the terminal."""
    return sys.platform in ("darwin", "win32") or bool(variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY"))


def _rights(login: StoredLogin) -> str:
    scope = login.tokens.get("scope")
    return f", with {scope}" if isinstance(scope, str) and scope else ""
