"""Keys that a command keeps for the user: in the system's keyring where one works, else in a file of the user's own.

`tertulia login` keeps the keys of model providers, `tertulia mcp login` the tokens of MCP servers. The file, which only
the user can read, names all that have a key, and holds the keys that no keyring took.
A keyring is asked by running `python -m keyring`, the program of an optional package, with a deadline: one that is
locked or broken must not block or end this process. A key is given to that program on its standard input, never in its
arguments. Looking creates nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from tertulia.errors import StorageError
from tertulia.policy.private_file import PrivateFile, VersionedContent

KEYRING_WAIT_S = 30.0
"""A person may have to unlock it."""
_SERVICE = "tertulia"
_OTHERS = 0o077

KeyPlace = Literal["keyring", "file"]


class KeyKind(NamedTuple):
    """What the keys of a store are, for its errors."""

    noun: str = "key"
    command: str = "tertulia login"
    """The command that keeps one, without its name."""
    prefix: str = ""
    """What stands before its name in the keyring, where keys of all kinds are side by side."""


_MODEL_KEY = KeyKind()


class StoredKey(msgspec.Struct, frozen=True):
    """The entry of one name. Its repr does not show the key."""

    key: str | None = None
    """None: the keyring has it."""

    @property
    def place(self) -> KeyPlace:
        return "keyring" if self.key is None else "file"

    def __repr__(self) -> str:
        return f"StoredKey({self.place})"


class _File(VersionedContent, frozen=True):
    keys: dict[str, StoredKey] = msgspec.field(default_factory=dict)


class KeyStore:
    """The keys of one kind in a data directory, by name: of a model provider, of an MCP server. StorageError where the
    store cannot be relied on.
    """

    def __init__(self, path: Path, variables: Mapping[str, str], kind: KeyKind = _MODEL_KEY) -> None:
        """
        Args:
            path: The file, in our data directory.
            variables: The environment that the keyring's program is started with.
            kind: What the keys are.
        """
        self.path = path
        self._kind = kind
        self._file = PrivateFile(self.path, _File)
        self._variables = variables

    def places(self) -> dict[str, KeyPlace]:
        """Which names have a key, and where. No keyring is asked."""
        return {name: entry.place for name, entry in self._load().items()}

    def keys_in_file(self) -> list[str]:
        """All keys that are not in the keyring."""
        return [entry.key for entry in self._load().values() if entry.key is not None]

    def read(self, name: str) -> str | None:
        """The key; None where there is none. It may take as long as a keyring does, `KEYRING_WAIT_S` at most."""
        entry = self._load().get(name)
        if entry is None or entry.key is not None:
            return entry and entry.key
        key = self._keyring("get", name)
        if not key:
            raise StorageError(
                f"the {self._kind.noun} for {name} was kept in the system's keyring, which does not give it now: "
                f"unlock it, or keep the {self._kind.noun} again with `{self._kind.command} {name}`",
                file=str(self.path),
            )
        return key

    def keep(self, name: str, key: str) -> KeyPlace:
        """Store a key, replacing an earlier one; returns where it is now."""
        with self._file.locked():
            if not self.path.exists():
                self._file.write(_File())
            # No key is written where it could not be used afterwards.
            self._load()
        # Outside of the file's lock: a person may have to unlock the keyring. A key that it does not return was not
        # stored.
        works = self._keyring("set", name, key) is not None and self._keyring("get", name) == key
        with self._file.locked():
            entry = StoredKey(None if works else key)
            self._file.write(_File(keys={**self._load(), name: entry}))
        return entry.place

    def remove(self, name: str) -> KeyPlace | None:
        """Remove a key; returns where it was, None where there was none."""
        entry = self._load().get(name)
        if entry is None:
            return None
        if entry.place == "keyring" and self._keyring("del", name) is None and self._keyring("get", name):
            raise StorageError(
                f"the {self._kind.noun} for {name} is still there: the system's keyring did not remove it",
                file=str(self.path),
            )
        with self._file.locked():
            self._file.write(_File(keys={other: its for other, its in self._load().items() if other != name}))
        return entry.place

    def _load(self) -> dict[str, StoredKey]:
        try:
            entries = self._file.load().keys
            if os.stat(self.path).st_mode & _OTHERS:
                raise ValueError(f"others can read it; `chmod 600 {self.path}` takes that from them")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise StorageError(
                f"{self.path}: {problem}; no {self._kind.noun} in it is used until that is mended", file=str(self.path)
            ) from None
        return dict(entries)

    def _keyring(self, act: Literal["get", "set", "del"], name: str, value: str = "") -> str | None:
        """What the keyring's program answers; None where there is none, or it fails."""
        if find_spec("keyring") is None:
            return None
        # -P: not the module `keyring` of the directory that the user happens to be in.
        program = (
            sys.executable,
            "-P",
            "-m",
            "keyring",
            act,
            _SERVICE,
            f"{self._kind.prefix}{name} in {self.path.parent}",
        )
        try:
            ended = subprocess.run(
                program,
                env=dict(self._variables),
                input=value,
                capture_output=True,
                text=True,
                timeout=KEYRING_WAIT_S,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
        return ended.stdout.rstrip("\n") if ended.returncode == 0 else None
