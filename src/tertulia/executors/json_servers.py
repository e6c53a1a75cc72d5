"""MCP servers that settings in JSON name, for an agent that can be told in a variable which of them not to start."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import UnsupportedByBackendError

MAX_BYTES = 1024 * 1024
# What is opened and never closed is taken to the end, and so looked at once. Whoever parses it will complain.
_STRING = r'"(?:[^"\\]+|\\.)*"?'
_COMMENT = re.compile(rf"//[^\r\n]*|/\*.*?\*/|({_STRING}|/\*.*)", re.DOTALL)
_COMMA = re.compile(rf",(?=\s*[}}\]])|({_STRING})", re.DOTALL)


class JsonServers(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent's settings are, and how one of their servers is switched off."""

    variable: str
    """Settings in JSON that win over its files."""
    table: str
    """The part that names servers."""
    folder: str
    """Below the directory for settings."""
    project: str
    """The folder in which a project has its own; they may lie beside it too."""
    files: tuple[str, ...]
    user_files: tuple[str, ...] = ()
    """Those that count in the directory for settings only."""

    def switched_off(self, environment: Mapping[str, str], cwd: str) -> dict[str, str]:
        """The variable that says so of each that the agent would start by itself; none where there are none.

        UnsupportedByBackend names what cannot be understood. Reads files, so do it in a thread.
        """
        names = [name for path in self._paths(environment, cwd) for name in _table(_read(path).get(self.table))]
        if not names:
            return {}
        # Also one that is called like ours: ours is added to the session later, whatever the settings say of the name.
        off = {name: {"enabled": False} for name in names}
        said = _parsed(environment.get(self.variable, ""), self.variable)
        return {self.variable: json.dumps({**said, self.table: {**_table(said.get(self.table)), **off}})}

    def _paths(self, environment: Mapping[str, str], cwd: str) -> Iterator[str]:
        home = environment.get("HOME", "")
        user = os.path.join(environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), self.folder)
        yield from (os.path.join(user, file) for file in self.user_files)
        places = [user]
        directory, above = os.path.realpath(cwd), ""
        while directory != above:
            places += [directory, os.path.join(directory, self.project)]
            directory, above = os.path.dirname(directory), directory
        places.append(os.path.join(home, self.project))
        for place in places:
            for file in self.files:
                yield os.path.join(place, file)


def _read(path: str) -> dict[str, Any]:
    try:
        # Not blocking: somebody could have put a pipe there.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise _refused(path, "is not a file")
        with os.fdopen(number, "rb", closefd=False) as file:
            raw = file.read(MAX_BYTES + 1)
    finally:
        os.close(number)
    if len(raw) > MAX_BYTES:
        raise _refused(path, f"is larger than {MAX_BYTES:,} bytes")
    return _parsed(raw.decode("utf-8-sig", "replace"), path)


def _parsed(text: str, where: str) -> dict[str, Any]:
    """What it says, with comments and commas too many."""
    text = _COMMENT.sub(lambda found: found[1] or " ", text)
    text = _COMMA.sub(lambda found: found[1] or "", text)
    try:
        return _table(json.loads(text)) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise _refused(where, f"is not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise _refused(where, "is not JSON that can be understood") from None


def _refused(where: str, why: str) -> UnsupportedByBackendError:
    return UnsupportedByBackendError(
        f"{where} {why}, so the agent cannot be kept from MCP servers that it may name; correct or remove it"
    )


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
