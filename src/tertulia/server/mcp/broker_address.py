"""Where the shared MCP broker of a user listens, which settings it runs with, and the first lines on its socket.

Imports as little as possible: every program that uses the broker starts a relay, and the relay imports this module.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tertulia.errors import BusyError, InvalidParamsError, StorageError
from tertulia.mcp.config.definition import Http, ServerDefinition
from tertulia.mcp.view import NamedView, view_from_wire
from tertulia.policy.file_lock import try_lock
from tertulia.policy.limits import Limits
from tertulia.protocol.storage import HeadersOnly, strictest
from tertulia.session.agents.private_socket import is_same_user as is_same_user
from tertulia.session.agents.private_socket import private_directory as private_directory
from tertulia.session.agents.private_socket import short_path as short_path
from tertulia.session.mcp.configured_servers import configured_servers
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__

_STEP_S = 0.05


class BrokerGreeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line that a client sends; everything after it is MCP."""

    view: str | None = None
    client: str = ""


class BrokerWelcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The broker's answer to a greeting."""

    ok: bool
    error: str | None = None


def socket_path(settings: Settings, environment: Environment) -> Path:
    """The socket of the broker for exactly these settings: a program with other settings gets a broker of its own.

    So does a program for which variables that servers read have other values, or for which a server's command is
    another program: no program makes calls with the keys of another.
    """
    definitions = configured_servers(settings, environment).definitions
    reached = [item for definition in definitions for item in _environment_inputs(definition, environment)]
    settings = replace(settings, sources={})
    if not any(isinstance(definition.transport, Http) for definition in definitions):
        # No server is reached over the network. Some programs pass these variables of theirs on, others do not.
        settings = replace(settings, proxy=None, ca_file=None, ca_dir=None)
    encoded = msgspec.json.encode([__version__, settings, reached], enc_hook=repr, order="deterministic")
    return environment.home / "broker" / f"{hashlib.sha256(encoded).hexdigest()[:16]}.sock"


def _environment_inputs(definition: ServerDefinition, environment: Environment) -> Iterator[str | None]:
    """What a server takes from the environment of the process that starts it: its program's path, and variables."""
    transport, variables = definition.transport, environment.variables
    if isinstance(transport, Http):
        names = (transport.bearer_token_env_var or "", *transport.env_http_headers.values())
    else:
        names = transport.env_vars
        yield shutil.which(transport.command, path=variables.get("PATH"))
    yield from map(variables.get, names)


def private_file(path: Path, flags: int) -> int:
    """Open a file, or create it readable by this user alone; StorageError where it is a link, or no regular file of
    this user.
    """
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; remove it") from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        os.close(fd)
        raise StorageError(f"{path} is not a file of yours; remove it")
    os.fchmod(fd, 0o600)
    return fd


@contextmanager
def hold_lock(path: Path, patience_s: float) -> Generator[None]:
    """Hold this lock for the block; BusyError where another process keeps it longer than `patience_s`. It ends with its
    process.
    """
    private_directory(path.parent)
    lock = private_file(path, os.O_RDWR)
    try:
        for attempt in range(round(patience_s / _STEP_S) + 1):
            if attempt:
                time.sleep(_STEP_S)
            if try_lock(lock):
                break
        else:
            raise BusyError(f"another process holds {path}")
        yield
    finally:
        os.close(lock)


def broker_settings(settings: Settings, user_home: Path) -> Settings:
    """The settings of the broker: the user's own servers, shared by all programs, no project's servers or directory.

    Calls are recorded, their contents are not: those belong to the programs that call. How much of an answer a model
    reads is decided by these programs too, unless the user has set it; by default the broker cuts only huge answers.
    """
    limits = settings.rights.limits
    if limits.max_output_bytes == Limits().max_output_bytes:
        limits = replace(limits, max_output_bytes=None)
    return replace(
        settings,
        cwd=str(user_home),
        # The broker has no model of its own, and runs no commands in this directory.
        allow_home_workspace=True,
        is_broker=True,
        model="scripted/tour",
        project_servers=(),
        limits=limits,
        storage_policy=strictest(settings.rights.storage_policy, HeadersOnly()),
    )


def find_view(settings: Settings, name: str | None) -> NamedView:
    """The view of that name, or without a name the one with everything; InvalidParamsError lists the known names."""
    if name is None:
        return NamedView(name="all")
    view = settings.mcp_views.get(name)
    if view is None:
        names = ", ".join(sorted(settings.mcp_views)) or "none"
        raise InvalidParamsError(f"there is no view {name[:64]!r}, [mcp_views] of the configuration has {names}")
    return view if isinstance(view, NamedView) else view_from_wire(name, view)
