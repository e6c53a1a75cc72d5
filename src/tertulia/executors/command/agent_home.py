"""The home of an executor: a temporary one for a run, settings laid over the user's, and the MCP servers in them.

A private run gets a temporary home with copies of the login files. The system part of a run is a file in memory, so it
is on no disk and in no process list; an executor that reads it from a file of its home gets a link there. MCP servers
of an executor's own settings are kept out, because their tools cannot be narrowed here.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import tomllib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.command.definition import AgentHome, ExecutorDefinition, SettingsLayer
from tertulia.sandbox.directory_removal import remove_tree

_PREFIX = "tertulia-agent-"
_MEMORY = "/dev/shm"
"""A file system in memory, on every Linux."""
_LAYER_PREFIX = "tertulia-"
_READ_S = 60
"""Seconds after which an agent has surely read its settings."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SERVERS, _PROJECTS = "mcp_servers", "projects"
_HEADER = re.compile(r"\s*\[\[?\s*(\"[^\"]*\"|'[^']*'|[^.\]\s]+)")
_KEY = re.compile(r"\s*(\"mcp_servers\"|'mcp_servers'|mcp_servers)\s*[.=]")


class TemporaryHome:
    """A temporary directory that only this user can read. Blocks while a few small files are copied."""

    __slots__ = ("path",)

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX)

    def furnish(self, home: AgentHome | None, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of an agent with this home. Copies the files that the agent needs (mode 0600)."""
        # A temporary folder of its own too, because agents also keep prompts in temporary files.
        temporary = os.path.join(self.path, "tmp")
        os.mkdir(temporary, 0o700)
        moved = {**environment, "HOME": self.path, "TMPDIR": temporary}
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            moved.pop(name, None)
        if home is not None:
            usual = agent_home_folder(home, environment)
            here = os.path.join(self.path, home.folder)
            os.mkdir(here, 0o700)
            for name in home.files:
                _copy(os.path.join(usual, name), os.path.join(here, name))
            moved[home.variable] = here
        return moved

    def remove(self) -> None:
        """Remove the folder; a second call does nothing."""
        remove_tree(self.path)


def agent_home_folder(home: AgentHome | None, environment: Mapping[str, str]) -> str:
    """Where the agent keeps its sessions when it has no temporary home."""
    user_home = environment.get("HOME", "")
    if home is None:
        return user_home
    return environment.get(home.variable) or os.path.join(user_home, home.folder)


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError, PermissionError), open(source, "rb") as file:
        content = file.read()
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            copy.write(content)


@contextmanager
def memory_folder() -> Generator[str]:
    """A directory in memory that only this user can read, while the block lasts; empty where there is no room for one.

    Not a file descriptor of this process: a program in a user namespace of its own cannot open that.
    """
    try:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY)
    except OSError:
        yield ""
        return
    try:
        yield path
    finally:
        remove_tree(path)


def memory_file(folder: str, name: str, text: str) -> str:
    """Write a file in the directory in memory; returns its path, or an empty text where it cannot be written."""
    if not folder or not text:
        return ""
    path = os.path.join(folder, name)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError:
        return ""
    return path


@contextmanager
def settings_layer_file(
    definition: ExecutorDefinition, environment: Mapping[str, str], system: str, folder: str
) -> Generator[str]:
    """The name of the settings layer for the argument, while the block lasts; empty where none can be made.

    `folder`: the directory in memory that holds its text.
    """
    home = definition.home
    if not system or home is None or home.layer is None or _is_taken(home.layer, definition):
        yield ""
        return
    layer, name = home.layer, _LAYER_PREFIX + secrets.token_hex(8)
    path = os.path.join(agent_home_folder(home, environment), layer.file.replace("{name}", name))
    file = memory_file(folder, "layer", f"{layer.key} = {_toml(system)}\n")
    if not file:
        yield ""
        return
    try:
        _link(file, path)
    except OSError:
        # The agent's home does not exist yet, or cannot be written.
        yield ""
        return
    try:
        yield name
    finally:
        with suppress(OSError):
            os.unlink(path)


def _is_taken(layer: SettingsLayer, definition: ExecutorDefinition) -> bool:
    """Whether the user's own arguments choose a layer: an agent takes only one."""
    words = (*definition.command, *definition.args)
    return any(word == option or word.startswith(f"{option}=") for word in words for option in layer.options)


def _link(file: str, path: str) -> None:
    os.symlink(file, path)
    place, ending = os.path.dirname(path), os.path.splitext(path)[1]
    with suppress(OSError):
        # By the clock of the file system, which may be that of another machine.
        before = os.lstat(path).st_mtime - _READ_S
        for name in os.listdir(place):
            if name.startswith(_LAYER_PREFIX) and name.endswith(ending):
                _sweep(os.path.join(place, name), before)


def _sweep(path: str, before: float) -> None:
    """Remove a dangling link that a killed process has left."""
    with suppress(OSError):
        # A recent one may be in use: seen from another namespace, such as a container's, a live link dangles too.
        if os.path.islink(path) and not os.path.exists(path) and os.lstat(path).st_mtime < before:
            os.unlink(path)


def _toml(text: str) -> str:
    # A JSON string is valid TOML too, except for one character that JSON does not escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def servers_in_toml(place: str, file: str, folder: str, cwd: str) -> tuple[str, ...]:
    """Names of the MCP servers in the settings below `place`, and in those of the projects that these settings trust.

    A project keeps its own file in `folder`. The agent does not read one that is not trusted. Blocks shortly.
    """
    settings = _read(os.path.join(place, file))
    names = [*_table(settings, _SERVERS)]
    trusted = {path for path, project in _table(settings, _PROJECTS).items() if _trusts(project)}
    for directory in _upwards(os.path.realpath(cwd), trusted):
        names += _table(_read(os.path.join(directory, folder, file)), _SERVERS)
    return tuple(dict.fromkeys(name for name in names if _NAME.fullmatch(name)))


def _trusts(project: object) -> bool:
    return isinstance(project, Mapping) and cast("Mapping[str, object]", project).get("trust_level") == "trusted"


def _upwards(path: str, trusted: set[str]) -> Iterator[str]:
    """The directory and its parents, up to the highest trusted one; empty where none is trusted."""
    above = [path]
    while above[-1] != "/":
        above.append(os.path.dirname(above[-1]))
    last = max((at for at, directory in enumerate(above) if directory in trusted), default=-1)
    return iter(above[: last + 1])


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        # The agent itself reports a file that cannot be read.
        return {}


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = settings.get(name)
    return cast("Mapping[str, Any]", table) if isinstance(table, Mapping) else {}


def strip_servers(place: str, home: AgentHome) -> None:
    """Remove MCP servers from a copy of the settings; UnsupportedByBackendError where that cannot be done safely."""
    if home.servers is None:
        return
    path = os.path.join(place, home.servers)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return
    left = "".join(_lines(text))
    if _SERVERS in _parse_settings(left) or _parse_settings(text).keys() - _parse_settings(left).keys() - {_SERVERS}:
        raise UnsupportedByBackendError(
            f"{home.folder}/{home.servers} names MCP servers in a way that cannot be kept from the agent; "
            "write each as a table [mcp_servers.NAME]"
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(left)


def check_project_servers(cwd: str, home: AgentHome) -> None:
    """Refuse a directory whose settings name MCP servers, for an agent that trusts every directory it works in."""
    directory, above = os.path.realpath(cwd), ""
    while home.servers is not None and directory != above:
        path = os.path.join(directory, home.folder, home.servers)
        if _names_servers(path):
            raise UnsupportedByBackendError(
                f"{path} names MCP servers, and the agent would start them; remove them there"
            )
        directory, above = os.path.dirname(directory), directory


def _names_servers(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return bool(_parse_settings(file.read()).get(_SERVERS))
    except (OSError, ValueError):
        return False


def _lines(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header is not None:
            inside = header[1].strip("\"'") == _SERVERS
        if not inside and _KEY.match(line) is None:
            yield line


def _parse_settings(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        # The agent itself reports the error; nothing of the file is used here.
        return {}
