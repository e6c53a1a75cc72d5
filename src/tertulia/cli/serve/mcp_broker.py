"""`tertulia mcp-broker`: the pool of MCP servers, through a named view, as one MCP server for any other program.

Every program that uses the broker starts this as a relay: it copies bytes between its pipes and the shared broker's
socket, starts the broker if none listens there, and imports little. The broker itself is in `broker_service`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags, whole_number
from tertulia.errors import McpError
from tertulia.sandbox.limits.open_files import restore_child_limit
from tertulia.server.mcp.broker_address import (
    BrokerGreeting,
    BrokerWelcome,
    broker_settings,
    find_view,
    hold_lock,
    is_same_user,
    private_directory,
    private_file,
    short_path,
    socket_path,
)
from tertulia.session.agents.relay import copy_standard_streams

START_S = 30.0
_STEP_S = 0.05
_CHUNK = 65_536
_MAX_WELCOME = 65_536
_MAX_LOG = 1024 * 1024
_ATTEMPTS = 3
_CLOSE_S = 0.5

_MORE = """
\b
Examples:
  tertulia mcp-broker                    every server of config.toml, over standard input and output
  tertulia mcp-broker --view review      only what [mcp_views.review] lets through
  tertulia mcp-broker --http 8765        over HTTP on loopback, with a token
\b
In the configuration of Codex:
  [mcp_servers.tertulia]
  command = "tertulia"
  args = ["mcp-broker", "--view", "review"]
"""


@click.command("mcp-broker", epilog=_MORE)
@click.option("--view", metavar="NAME", help="Serve [mcp_views.NAME] of the configuration; without it, everything.")
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=whole_number(0, 65_535),
    help="Serve HTTP on loopback instead; 0 chooses a port.",
)
@click.option("--alone", is_flag=True, help="Start servers for this client only, and do not share them.")
@click.option("--idle-exit", metavar="SECONDS", type=float, default=300.0, show_default=True,
              help="How long the shared broker stays when no program uses it.")  # fmt: skip
@click.option("--daemon", is_flag=True, hidden=True)
@global_flags
@click.pass_obj
def command(
    flags: GlobalFlags, *, view: str | None, port: int | None, alone: bool, idle_exit: float, daemon: bool
) -> int:
    """Serve all your MCP servers as one, to any program that speaks MCP.

    Programs that are started with the same configuration share one set of server processes: the first one starts a
    broker in the background, which ends when no program uses it any more. A view decides which tools a program sees;
    limits, approvals and pinned definitions hold as in a session, and every call is in the session's record
    (`tertulia sessions show`).
    """
    if daemon:
        flags.values, flags.overrides, flags.mcp = json.load(sys.stdin)
    # Not where this program was started: settings of a project do not count here, so that sharing programs agree.
    flags.values["cwd"] = "/"
    loaded = flags.load()
    environment = loaded.environment
    settings = broker_settings(loaded.settings, environment.user_home)
    named_view, place = find_view(settings, view), socket_path(settings, environment)
    if daemon or alone or port is not None:
        # Imported here: a relay needs none of it.
        from tertulia.cli.serve import broker_service

        if daemon:
            return broker_service.serve_shared(settings, place, idle_exit)
        token_file = environment.home / "broker" / "http.token"
        if alone:
            return broker_service.serve_stdio_client(settings, named_view)
        return broker_service.serve_http_port(settings, named_view, port or 0, token_file)
    start = [sys.executable, "-m", "tertulia", "mcp-broker", "--daemon", "--idle-exit", str(idle_exit)]
    return relay_to_broker(place, view, start, json.dumps([flags.values, flags.overrides, flags.mcp]).encode())


# ---- the relay between a program's pipes and the broker's socket


def relay_to_broker(place: Path, view: str | None, start: Sequence[str], config: bytes) -> int:
    """Copy bytes both ways until one side is done.

    Args:
        start: the broker's command line, run if no broker listens.
        config: what a started broker reads from its standard input: the flags.

    Raises:
        McpError: why the broker could not be reached, or refused this client.
    """
    with _connect(place, view, start, config) as connection:
        up = copy_standard_streams(connection)
        up.join(_CLOSE_S)
        if up.is_alive():
            raise McpError("the shared broker went away")
    return 0


def _connect(place: Path, view: str | None, start: Sequence[str], config: bytes) -> socket.socket:
    private_directory(place.parent)
    for _ in range(_ATTEMPTS):
        connection = _try(place) or _start(place, start, config)
        try:
            welcome = _greet(connection, view)
            if welcome is not None and welcome.ok:
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        if welcome is not None:
            raise McpError(welcome.error or "the shared broker refused")
        # It was about to end, because it had no client.
    raise McpError("the shared broker went away; try again")


def _start(place: Path, start: Sequence[str], config: bytes) -> socket.socket:
    """Start a broker; of relays that come at the same time one does, the others wait until it listens."""
    with hold_lock(place.with_suffix(".start"), START_S):
        if (connection := _try(place)) is not None:
            return connection
        log = private_file(place.with_suffix(".log"), os.O_RDWR | os.O_APPEND)
        try:
            if os.fstat(log).st_size > _MAX_LOG:
                os.ftruncate(log, 0)
            return _start_broker(place, start, config, log)
        finally:
            os.close(log)


def _start_broker(place: Path, start: Sequence[str], config: bytes, log: int) -> socket.socket:
    before = os.fstat(log).st_size
    # In a process session of its own: it serves other programs too, and stays when this terminal closes. Its
    # settings go through standard input: a command line can be seen by every user.
    broker = subprocess.Popen(
        start, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", start_new_session=True, close_fds=True
    )
    restore_child_limit(broker.pid)
    assert broker.stdin is not None
    with suppress(OSError), broker.stdin:
        broker.stdin.write(config)
    for _ in range(round(START_S / _STEP_S)):
        if (connection := _try(place)) is not None:
            return connection
        if broker.poll() is not None:
            break
        time.sleep(_STEP_S)
    last_line = os.pread(log, _CHUNK, before).decode(errors="replace").strip().rpartition("\n")[2]
    why = last_line.removeprefix("tertulia: ") or f"{place.with_suffix('.log')} may say why"
    raise McpError(f"the shared broker did not start: {why}; `--alone` does without it")


def _try(place: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(place) as address:
            connection.connect(address)
        if is_same_user(connection):
            return connection
    except OSError:
        # No broker listens there.
        connection.close()
        return None
    connection.close()
    raise McpError(f"{place} belongs to another user; remove it")


def _greet(connection: socket.socket, view: str | None) -> BrokerWelcome | None:
    """Greet the broker and return its welcome; None if it closed the connection without one."""
    received = b""
    connection.settimeout(START_S)
    try:
        connection.sendall(msgspec.json.encode(BrokerGreeting(view, _parent())) + b"\n")
        while b"\n" not in received and len(received) < _MAX_WELCOME and (byte := connection.recv(1)):
            received += byte
    except TimeoutError:
        raise McpError(f"the shared broker does not answer, for {START_S:g} s; `--alone` does without it") from None
    except OSError:
        return None
    connection.settimeout(None)
    try:
        return msgspec.json.decode(received, type=BrokerWelcome)
    except msgspec.DecodeError:
        return None


def _parent() -> str:
    """The name of the program that started this relay, as far as the system tells."""
    with suppress(OSError):
        return Path(f"/proc/{os.getppid()}/comm").read_text(errors="replace").strip()[:64]
    return ""
