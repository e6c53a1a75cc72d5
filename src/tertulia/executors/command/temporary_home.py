"""A home for one run of an agent: its login is copied there, whatever it writes goes with it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress

from tertulia.executors.command.definition import AgentHome
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
        """Again is nothing."""
        remove_tree(self.path)


def agent_home_folder(home: AgentHome | None, environment: Mapping[str, str]) -> str:
    """Where the agent keeps its talks when nobody moves it."""
    user_home = environment.get("HOME", "")
    if home is None:
        return user_home
    return environment.get(home.variable) or os.path.join(user_home, home.folder)


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError, PermissionError), open(source, "rb") as file:
        content = file.read()
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            copy.write(content)
