"""The keys that `tertulia login` keeps: in the system's keyring where one works, else in a file of the user's own.

The file, which only the user can read, names all providers that have a key, and holds the keys that no keyring took.
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
from typing import Literal

import msgspec

from tertulia.errors import StorageError
from tertulia.policy.private_file import PrivateFile, VersionedContent

KEYRING_WAIT_S = 30.0
"""A person may have to unlock it."""
_SERVICE = "tertulia"
_OTHERS = 0o077

KeyPlace = Literal["keyring", "file"]


class StoredKey(msgspec.Struct, frozen=True):
    """One provider's entry. Its repr does not show the key."""

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
    """The keys of one data directory, by the name of their provider. StorageError where it cannot be relied on."""

    def __init__(self, path: Path, variables: Mapping[str, str]) -> None:
        """
        Args:
            path: The file, in our data directory.
            variables: The environment that the keyring's program is started with.
        """
        self.path = path
        self._file = PrivateFile(self.path, _File)
        self._variables = variables

    def places(self) -> dict[str, KeyPlace]:
        """Which providers have a key, and where. No keyring is asked."""
        return {name: entry.place for name, entry in self._load().items()}

    def keys_in_file(self) -> list[str]:
        """All keys that are not in the keyring."""
        return [entry.key for entry in self._load().values() if entry.key is not None]

    def read(self, provider: str) -> str | None:
        """The key; None where there is none. It may take as long as a keyring does, `KEYRING_WAIT_S` at most."""
        entry = self._load().get(provider)
        if entry is None or entry.key is not None:
            return entry and entry.key
        key = self._keyring("get", provider)
        if not key:
            raise StorageError(
                f"the key for {provider} was kept in the system's keyring, which does not give it now: unlock it, or "
                f"keep the key again with `tertulia login {provider}`",
                file=str(self.path),
            )
        return key

    def keep(self, provider: str, key: str) -> KeyPlace:
        """Store a key, replacing an earlier one; returns where it is now."""
        with self._file.locked():
            if not self.path.exists():
                self._file.write(_File())
            # No key is written where it could not be used afterwards.
            self._load()
        # Outside of the file's lock: a person may have to unlock the keyring. A key that it does not return was not
        # stored.
        works = self._keyring("set", provider, key) is not None and self._keyring("get", provider) == key
        with self._file.locked():
            entry = StoredKey(None if works else key)
            self._file.write(_File(keys={**self._load(), provider: entry}))
        return entry.place

    def remove(self, provider: str) -> KeyPlace | None:
        """Remove a key; returns where it was, None where there was none."""
        entry = self._load().get(provider)
        if entry is None:
            return None
        if entry.place == "keyring" and self._keyring("del", provider) is None and self._keyring("get", provider):
            raise StorageError(
                f"the key for {provider} is still there: the system's keyring did not remove it", file=str(self.path)
            )
        with self._file.locked():
            self._file.write(_File(keys={name: other for name, other in self._load().items() if name != provider}))
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
                f"{self.path}: {problem}; no key in it is used until that is mended", file=str(self.path)
            ) from None
        return dict(entries)

    def _keyring(self, act: Literal["get", "set", "del"], provider: str, value: str = "") -> str | None:
        """What the keyring's program answers; None where there is none, or it fails."""
        if find_spec("keyring") is None:
            return None
        # -P: not the module `keyring` of the directory that the user happens to be in.
        program = (sys.executable, "-P", "-m", "keyring", act, _SERVICE, f"{provider} in {self.path.parent}")
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
