"""`tertulia internal`: a tool of an agent's session, called back by a program that the agent has started.

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
  1  it refused, or there is nobody to ask
  2  usage: no token, or arguments that are no JSON object
"""


@click.command("internal", epilog=_MORE)
@click.argument("tool")
@click.argument("arguments", required=False, default="{}")
@global_flags
@click.pass_obj
def command(given: object, *, tool: str, arguments: str) -> int:
    """Call an internal tool of the session that an agent belongs to.

    For programs that an agent has started. Who calls is told by the token in TERTULIA_TOKEN, and by nothing else; where
    the session is, by TERTULIA_SOCKET, or else it is looked for. ARGUMENTS is a JSON object; `-` reads it from standard
    input. The answer is written as JSON.
    """
    environment = current_environment()
    token = environment.variables.get("TERTULIA_TOKEN", "")
    if not token:
        raise InvalidParamsError("TERTULIA_TOKEN is not set: only programs that an agent has started have it")
    asked = _object(sys.stdin.read(MAX_LINE) if arguments == "-" else arguments)
    sys.stdout.buffer.write(json_line(_call(environment, token, CallbackCall(tool, asked))))
    return 0


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidParamsError(f"ARGUMENTS must be one JSON object: {error}") from None


def _call(environment: Environment, token: str, asking: CallbackCall) -> Any:
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
            return _exchange(connection, asking, _ANSWER_S)
    if unknown is not None:
        raise unknown
    raise NotFoundError("no session with agents runs here; TERTULIA_SOCKET says where to look")


def _places(environment: Environment) -> Iterator[Path]:
    told = environment.variables.get("TERTULIA_SOCKET")
    if told:
        yield Path(told)
    else:
        yield from sorted((environment.home / "internal").glob("*.sock"))


class _SessionConnection:
    """A connection to a session of this user; None where nobody listens, or somebody else."""

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


def _exchange(connection: socket.socket, said: CallbackHello | CallbackCall, patience_s: float) -> Any:
    heard = bytearray()
    connection.settimeout(patience_s)
    with suppress(OSError):
        connection.sendall(msgspec.json.encode(said) + b"\n")
        while not heard.endswith(b"\n") and (chunk := connection.recv(_CHUNK)):
            heard += chunk
    try:
        told = msgspec.json.decode(heard, type=CallbackReply)
    except msgspec.DecodeError:
        raise TertuliaError("the session went away before it answered") from None
    if told.error is not None:
        raise TertuliaError(told.error.get("message", "the session refused"))
    return told.result
