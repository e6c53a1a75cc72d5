"""What an agent finds in a home for the time of one run: a home of its own, or settings laid over the user's.

A private run gets a temporary home with copies of the login files. The system part of a run is a text in memory, on no
disk and in no list of processes; agents that read it from a file of their home get a link to it there.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress

from tertulia.executors.command.definition import AgentHome, ExecutorDefinition, SettingsLayer
from tertulia.sandbox.bubblewrap_process import memory_fd
from tertulia.sandbox.directory_removal import remove_tree

_PREFIX = "tertulia-agent-"


class TemporaryHome:
    """A directory that only its owner can read. Blocks for as long as copying a few small files takes."""

    __slots__ = ("path",)

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX)

    def furnish(self, home: AgentHome | None, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of an agent that lives here; copies (mode 0600) are made of what it needs."""
        # Agents keep what they heard in temporary files as well.
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
def memory_file(text: str) -> Generator[str]:
    """The path, for programs of this user, while the block lasts and we do."""
    fd = memory_fd(text.encode("utf-8", "replace"))
    try:
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


_LAYER_PREFIX = "tertulia-"
_READ_S = 60
"""After so long an agent has read its settings."""


@contextmanager
def settings_layer_file(definition: ExecutorDefinition, environment: Mapping[str, str], system: str) -> Generator[str]:
    """What an argument calls the layer, while the block lasts; empty where there is none, or no room for it."""
    home = definition.home
    if not system or home is None or home.layer is None or _is_taken(home.layer, definition):
        yield ""
        return
    layer, name = home.layer, _LAYER_PREFIX + secrets.token_hex(8)
    path = os.path.join(agent_home_folder(home, environment), layer.file.replace("{name}", name))
    with memory_file(f"{layer.key} = {_toml(system)}\n") as file:
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
    """Take away what a process that was killed has left: there is nothing behind it any more."""
    with suppress(OSError):
        # A young one may be alive: from another namespace of processes, nothing is to be seen behind it either.
        if os.path.islink(path) and not os.path.exists(path) and os.lstat(path).st_mtime < before:
            os.unlink(path)


def _toml(text: str) -> str:
    # A JSON string is one of TOML, but for one character that JSON lets stand.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
