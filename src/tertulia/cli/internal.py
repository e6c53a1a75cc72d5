"""`tertulia internal`: lets a program that an agent has started call an internal tool of the agent's session.

Imports as little as it can: agents wait for it.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from tertulia.cli.global_flags import global_flags
from tertulia.cli.output.terminal import json_line
from tertulia.errors import InvalidParamsError, NotFoundError, TertuliaError
from tertulia.protocol.validation_text import explain_decoding
from tertulia.session.agents.callback_protocol import MAX_LINE, CallbackCall, CallbackHello, CallbackReply
from tertulia.session.agents.private_socket import is_same_user, short_path
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import current_environment

_CONNECT_S = 10.0
_ANSWER_S = 330.0
"""The longest that a tool may take, and a little more."""
_CHUNK = 65_536

_MORE = """
\b
Examples:
  tertulia internal canvas_update '{"html": "<h1>Done</h1>", "title": "Status"}'
  render-report | jq -Rs '{html: .}' | tertulia internal canvas_update -
  tertulia internal canvas_clear

\b
Exit codes:
  0  the tool has answered
  1  it refused, or no session runs here
  2  usage: no token, or arguments that are no JSON object
"""


@click.command("internal", epilog=_MORE)
@click.argument("tool")
@click.argument("arguments", required=False, default="{}")
@global_flags
@click.pass_obj
def command(flags: object, *, tool: str, arguments: str) -> int:
    """Call an internal tool of the session that an agent belongs to.

    For programs that an agent has started. The token in TERTULIA_TOKEN says which agent calls. TERTULIA_SOCKET says
    where its session is; without it, the sessions of this user are tried. ARGUMENTS is a JSON object; `-` reads it
    from standard input. The answer is written as JSON.
    """
    environment = current_environment()
    token = environment.variables.get("TERTULIA_TOKEN", "")
    if not token:
        raise InvalidParamsError("TERTULIA_TOKEN is not set: only programs that an agent has started have it")
    params = _object(sys.stdin.read(MAX_LINE) if arguments == "-" else arguments)
    sys.stdout.buffer.write(json_line(_call(environment, token, CallbackCall(tool, params))))
    return 0


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidParamsError(f"ARGUMENTS must be one JSON object: {explain_decoding(error)}") from None


def _call(environment: Environment, token: str, call: CallbackCall) -> Any:
    unknown: TertuliaError | None = None
    for place in _places(environment):
        with _SessionConnection(place) as connection:
            if connection is None:
                continue
            try:
                _exchange(connection, CallbackHello(token), _CONNECT_S)
            except TertuliaError as refused:
                # It may be another session's token.
                unknown = refused
                continue
            return _exchange(connection, call, _ANSWER_S)
    if unknown is not None:
        raise unknown
    raise NotFoundError("no session with agents runs here; TERTULIA_SOCKET says where to look")


def _places(environment: Environment) -> Iterator[Path]:
    configured = environment.variables.get("TERTULIA_SOCKET")
    if configured:
        yield Path(configured)
    else:
        yield from sorted((environment.home / "internal").glob("*.sock"))


class _SessionConnection:
    """A connection to a session of this user; None where no session listens, or one of another user."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> socket.socket | None:
        self._socket.settimeout(_CONNECT_S)
        with suppress(OSError), short_path(self._place) as address:
            self._socket.connect(address)
            return self._socket if is_same_user(self._socket) else None
        return None

    def __exit__(self, *exc: object) -> None:
        self._socket.close()


def _exchange(connection: socket.socket, message: CallbackHello | CallbackCall, patience_s: float) -> Any:
    received = bytearray()
    connection.settimeout(patience_s)
    with suppress(OSError):
        connection.sendall(msgspec.json.encode(message) + b"\n")
        while not received.endswith(b"\n") and (chunk := connection.recv(_CHUNK)):
            received += chunk
    try:
        reply = msgspec.json.decode(received, type=CallbackReply)
    except msgspec.DecodeError:
        raise TertuliaError("the session went away before it answered") from None
    if reply.error is not None:
        raise TertuliaError(reply.error.get("message", "the session refused"))
    return reply.result
