"""MCP servers that an agent's own settings name: how each is switched off, so that it starts none but ours."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import UnsupportedByBackendError
from tertulia.policy.plain_file import NotPlainFileError, read_plain_file
from tertulia.protocol.validation_text import explain_json

_OURS = "tertulia"
MAX_SETTINGS_BYTES = 1024 * 1024
# An unclosed string or comment matches to the end, so it is scanned once. The JSON parser reports it.
_STRING = r'"(?:[^"\\]+|\\.)*"?'
_COMMENT = re.compile(rf"//[^\r\n]*|/\*.*?\*/|({_STRING}|/\*.*)", re.DOTALL)
_COMMA = re.compile(rf",(?=\s*[}}\]])|({_STRING})", re.DOTALL)


class JsonServers(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent keeps its settings in JSON, and how its own MCP servers are switched off."""

    variable: str
    """The variable with settings in JSON that override the files."""
    table: str
    """The key of the table that names MCP servers."""
    folder: str
    """The agent's folder in the user's configuration directory."""
    project: str
    """The folder with a project's settings; the files may also lie beside it."""
    files: tuple[str, ...]
    user_files: tuple[str, ...] = ()
    """Files that are read in the user's configuration directory only."""

    def switched_off(self, environment: Mapping[str, str], cwd: str) -> dict[str, str]:
        """The variable that switches off every MCP server of the agent's own settings; empty where they name none.

        UnsupportedByBackendError names a file that cannot be parsed. Reads files, so call it in a thread.
        """
        names = [name for path in self._paths(environment, cwd) for name in _as_table(_read(path).get(self.table))]
        if not names:
            return {}
        # Also one with the name of ours: ours is added to the session later, whatever the settings say of that name.
        off = {name: {"enabled": False} for name in names}
        settings = _parsed(environment.get(self.variable, ""), self.variable)
        return {self.variable: json.dumps({**settings, self.table: {**_as_table(settings.get(self.table)), **off}})}

    def _paths(self, environment: Mapping[str, str], cwd: str) -> Iterator[str]:
        home = environment.get("HOME", "")
        user = os.path.join(environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), self.folder)
        yield from (os.path.join(user, file) for file in self.user_files)
        places = [user]
        for directory in _upwards(cwd):
            places += [directory, os.path.join(directory, self.project)]
        places.append(os.path.join(home, self.project))
        for place in places:
            for file in self.files:
                yield os.path.join(place, file)


class ServersByArgument(msgspec.Struct, frozen=True, kw_only=True):
    """The same for an agent that is told by arguments which servers not to start."""

    option: str
    """The option that takes the name of a server."""
    variable: str
    """The variable that names the agent's folder, with its file."""
    folder: str
    """That folder below HOME, where no variable names another."""
    file: str
    project_files: tuple[str, ...]
    """The files of a project, in the directory of the task and in those above it."""
    table: str

    def switched_off(self, environment: Mapping[str, str], cwd: str) -> list[str]:
        """The arguments. UnsupportedByBackendError names a file that cannot be parsed. Reads files."""
        home = environment.get(self.variable) or os.path.join(environment.get("HOME", ""), self.folder)
        paths = [os.path.join(home, self.file)]
        paths += [os.path.join(place, file) for place in _upwards(cwd) for file in self.project_files]
        names = [name for path in paths for name in _as_table(_read(path).get(self.table))]
        # Not one with the name of ours: that would switch ours off, which replaces it. In one word with its option: a
        # project may call a server like an option. No argument can hold a NUL, and no server of such a name is started.
        others = [name for name in dict.fromkeys(names) if name != _OURS and "\0" not in name]
        return [f"{self.option}={name}" for name in others]


def _upwards(cwd: str) -> Iterator[str]:
    directory, above = os.path.realpath(cwd), ""
    while directory != above:
        yield directory
        directory, above = os.path.dirname(directory), directory


def _read(path: str) -> dict[str, Any]:
    try:
        raw = read_plain_file(path, MAX_SETTINGS_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror}") from None
    except NotPlainFileError:
        raise _refusal(path, "is not a file") from None
    if len(raw) > MAX_SETTINGS_BYTES:
        raise _refusal(path, f"is larger than {MAX_SETTINGS_BYTES:,} bytes")
    return _parsed(raw.decode("utf-8-sig", "replace"), path)


def _parsed(text: str, where: str) -> dict[str, Any]:
    """Parse JSON that may have comments and trailing commas."""
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    text = _COMMA.sub(lambda match: match[1] or "", text)
    try:
        return _as_table(json.loads(text)) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise _refusal(
            where, f"is not JSON (at line {error.lineno}, column {error.colno}): {explain_json(error)}"
        ) from None
    except (ValueError, RecursionError):
        raise _refusal(where, "is not JSON that can be understood") from None


def _refusal(where: str, why: str) -> UnsupportedByBackendError:
    return UnsupportedByBackendError(
        f"{where} {why}, so the agent cannot be kept from MCP servers that it may name; correct or remove it"
    )


def _as_table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
