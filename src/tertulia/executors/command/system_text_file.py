"""The system part of one run as settings that an agent lays over its own: on no disk, and in no list of processes.

For agents that read such a thing from a file of their own home only. What stands there, for the time of the run, is a
link to a text in memory.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress

from tertulia.executors.command.definition import ExecutorDefinition, SettingsLayer
from tertulia.executors.command.temporary_home import agent_home_folder
from tertulia.sandbox.bubblewrap_process import memory_fd


@contextmanager
def memory_file(text: str) -> Generator[str]:
    """The path, for programs of this user, while the block lasts and we do."""
    fd = memory_fd(text.encode("utf-8", "replace"))
    try:
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


_PREFIX = "tertulia-"
_READ_S = 60
"""After so long an agent has read its settings."""


@contextmanager
def settings_layer_file(definition: ExecutorDefinition, environment: Mapping[str, str], told: str) -> Generator[str]:
    """What an argument calls the layer, while the block lasts; empty where there is none, or no room for it."""
    home = definition.home
    if not told or home is None or home.layer is None or _is_taken(home.layer, definition):
        yield ""
        return
    layer, name = home.layer, _PREFIX + secrets.token_hex(8)
    path = os.path.join(agent_home_folder(home, environment), layer.file.replace("{name}", name))
    with memory_file(f"{layer.key} = {_toml(told)}\n") as file:
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
        # By the clock of whoever keeps the files, which may be another machine's.
        before = os.lstat(path).st_mtime - _READ_S
        for name in os.listdir(place):
            if name.startswith(_PREFIX) and name.endswith(ending):
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
