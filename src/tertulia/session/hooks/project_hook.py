"""A hook that a project's `.tertulia/config.toml` defines. It is asked only when the user has trusted its content.

A program of the project must lie where no command of a conversation can write, in `.tertulia`: else the model could
replace it, and it runs outside any sandbox. There it is started too, and from there relative paths count.
"""

from __future__ import annotations

import hashlib
import json
import os.path
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.trust_store import TrustStore
from tertulia.policy.plain_file import read_plain_file
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.sandbox.mounts.nested_protected import protected_part
from tertulia.session.hooks.hook_table import HookDefinition, hook_from_wire

FILE_NAME = "hook-trust.json"
_MAX_PROGRAM_BYTES = 16 * 1024 * 1024


class ProjectHook(msgspec.Struct, frozen=True, kw_only=True):
    """One table of a project's file, as it is written."""

    name: str
    entry: Any
    source: str
    """The path of the project's file."""
    folder: str

    def __repr__(self) -> str:
        return f"ProjectHook({self.name!r}, {self.source!r})"

    @property
    def place(self) -> str:
        """The directory that it is started in."""
        return os.path.dirname(self.source)

    @property
    def files(self) -> list[str]:
        """The files and directories of the project that its command names, as real paths."""
        table = cast("dict[str, Any]", self.entry) if isinstance(self.entry, dict) else {}
        command: object = table.get("command")
        words = cast("list[object]", command) if isinstance(command, list) else []
        return sorted({path for word in words for path in _named(word, self.place, self.folder)})

    @property
    def digest(self) -> str:
        """Of the entry, its file, and the files of the project that it starts: any change makes it another hook."""
        files = {path: _digest(path) for path in self.files}
        content = {"name": self.name, "entry": self.entry, "source": self.source, "files": files}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()

    def definition(self) -> HookDefinition:
        """The hook, if it can be used: InvalidParamsError says why not, and names its file."""
        try:
            if not isinstance(self.entry, dict):
                raise InvalidParamsError(f"hooks.{self.name[:64]} must be a table")
            for path in (os.path.realpath(self.place), *self.files):
                if protected_part(os.path.relpath(path, os.path.realpath(self.folder))) is None:
                    raise InvalidParamsError(
                        f"hooks.{self.name[:64]}: {path} can be changed by commands of a conversation; a program of "
                        "the project lies in .tertulia: hooks/check.py is .tertulia/hooks/check.py"
                    )
            for path in self.files:
                if os.path.isdir(path):
                    raise InvalidParamsError(
                        f"hooks.{self.name[:64]}: {path} is a directory, and only files are trusted as they are; name "
                        "the file that is meant: hooks/check.py is .tertulia/hooks/check.py"
                    )
            return hook_from_wire(self.name, cast("Mapping[str, Any]", self.entry), folder=self.place)
        except InvalidParamsError as error:
            raise InvalidParamsError(f"{self.source}: {error.message}") from None


def trust_store(home: Path) -> TrustStore:
    """Which hooks of projects the user has trusted."""
    return TrustStore(home, FILE_NAME, "hook of a project", "tertulia hooks trust NAME")


def trusted_hooks(
    hooks: Iterable[ProjectHook], users: Mapping[str, Any], home: Path
) -> tuple[list[tuple[ProjectHook, HookDefinition]], list[str]]:
    """(those that may be asked, why the others are not). Where two have one name the nearer file counts."""
    trusted = trust_store(home).read()
    usable: list[tuple[ProjectHook, HookDefinition]] = []
    warnings = [] if trusted.problem is None else [trusted.problem]
    for hook in {hook.name: hook for hook in hooks}.values():
        if hook.name in users:
            warnings.append(f"{hook.source}: the hook {hook.name!r:.80} is not asked, your own settings have one")
        elif hook not in trusted:
            warnings.append(
                f"{hook.source} defines the hook {hook.name!r:.80} and you have not trusted it as it is now, so it is "
                f"not asked; `tertulia hooks trust {hook.name[:64]}` shows it"
            )
        else:
            try:
                usable.append((hook, hook.definition()))
            except InvalidParamsError as error:
                warnings.append(error.message)
    return usable, warnings


def _named(word: object, place: str, folder: str) -> Iterator[str]:
    """The file or directory of the project that a word names, also behind an option: `--file=a`, `-Ca`."""
    if not isinstance(word, str) or "\0" in word:
        return
    for name in (word, word.partition("=")[2], word[2:] if word.startswith("-") else ""):
        path = os.path.normpath(os.path.join(place, name))
        inside = is_inside(path, folder) or is_inside(os.path.realpath(path), os.path.realpath(folder))
        if name and inside and os.path.lexists(path):
            yield os.path.realpath(path)


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_plain_file(path, _MAX_PROGRAM_BYTES)).hexdigest()
    except (OSError, ValueError) as error:
        return f"cannot be read: {type(error).__name__}"
