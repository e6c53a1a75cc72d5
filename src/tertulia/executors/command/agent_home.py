"""The home of an executor: a temporary one for a run, settings laid over the user's, and MCP servers that they name.

A private run gets a temporary home with copies of the login files. The system part of a run is a text in memory, on no
disk and in no list of processes; executors that read it from a file of their home get a link to it there. MCP servers
that an executor's own settings name are kept out: none of them is ours to narrow.
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
"""After so long an agent has read its settings."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SERVERS, _PROJECTS = "mcp_servers", "projects"
_HEADER = re.compile(r"\s*\[\[?\s*(\"[^\"]*\"|'[^']*'|[^.\]\s]+)")
_KEY = re.compile(r"\s*(\"mcp_servers\"|'mcp_servers'|mcp_servers)\s*[.=]")


class TemporaryHome:
    """A directory that only its owner can read. Blocks for as long as copying a few small files takes."""

    __slots__ = ("path",)

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX)

    def furnish(self, home: AgentHome | None, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of an agent with this home; copies (mode 0600) are made of what it needs."""
        # Agents keep prompts in temporary files as well.
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

    Not a descriptor of ours: a program in a namespace of users of its own cannot look at our process.
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
    """Its path in that directory; empty where it cannot be written."""
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
    """What an argument calls the layer, while the block lasts; empty where there is none, or no room for it.

    `folder`: where its text lies in memory.
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
        # A home that is not there yet, or cannot be written.
        yield ""
        return
    try:
        yield name
    finally:
        with suppress(OSError):
            os.unlink(path)


def _is_taken(layer: SettingsLayer, definition: ExecutorDefinition) -> bool:
    """Whether the user has chosen one: there can be one only."""
    words = (*definition.command, *definition.args)
    return any(word == option or word.startswith(f"{option}=") for word in words for option in layer.options)


def _link(file: str, path: str) -> None:
    os.symlink(file, path)
    place, ending = os.path.dirname(path), os.path.splitext(path)[1]
    with suppress(OSError):
        # By the clock of the file system, which may be another machine's.
        before = os.lstat(path).st_mtime - _READ_S
        for name in os.listdir(place):
            if name.startswith(_LAYER_PREFIX) and name.endswith(ending):
                _sweep(os.path.join(place, name), before)


def _sweep(path: str, before: float) -> None:
    """Remove what a killed process has left."""
    with suppress(OSError):
        # A young one may be alive: from another namespace of processes, nothing is to be seen behind it either.
        if os.path.islink(path) and not os.path.exists(path) and os.lstat(path).st_mtime < before:
            os.unlink(path)


def _toml(text: str) -> str:
    # A JSON string is one of TOML, but for one character that JSON lets stand.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def servers_in_toml(place: str, file: str, folder: str, cwd: str) -> tuple[str, ...]:
    """Names of the servers in the settings below `place`, and in those of the projects that these trust.

    A project's own file lies in its `folder`. One that is not trusted is not read by the agent either. Blocks shortly.
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
    """The directory and those above it, up to the highest that is trusted; none where none is."""
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
        # What we cannot read the agent will complain about itself.
        return {}


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = settings.get(name)
    return cast("Mapping[str, Any]", table) if isinstance(table, Mapping) else {}


def strip_servers(place: str, home: AgentHome) -> None:
    """Take them out of a copy of the settings below `place`; UnsupportedByBackend where that cannot be done safely."""
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
    """Refuse a directory whose own settings name servers, for an agent that trusts every directory it works in."""
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
        # The agent will complain about it itself; nothing of it is used here.
        return {}
