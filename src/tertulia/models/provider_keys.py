"""Finds the key of a provider: in the environment, else among those that `tertulia login` keeps.

Looked up at each request and kept nowhere, but for keys from the system's keyring, which takes long to answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tertulia.policy.key_store import KeyPlace, KeyStore

_PLACES: Mapping[KeyPlace, str] = {"keyring": "the system's keyring", "file": "a file"}


class ProviderKey(msgspec.Struct, frozen=True):
    """A key, and where it was found. Its repr does not show the key."""

    value: str
    origin: str
    """Fit for a sentence: `the environment variable X`, or where `tertulia login` keeps it."""

    def __repr__(self) -> str:
        return f"ProviderKey({self.origin})"


class ProviderKeys:
    """Where keys are looked for."""

    def __init__(
        self,
        variables: Mapping[str, str],
        keys_file: Path | None = None,
        learned: Callable[[str], object] = lambda _: None,
    ) -> None:
        """
        Args:
            variables: The environment.
            keys_file: What `tertulia login` wrote; None: stored keys do not count.
            learned: Called with every stored key that was read, so that it can be redacted in what is written.
        """
        self._variables = variables
        self._keys_file = keys_file
        self._learned = learned
        self._from_keyring: tuple[object, dict[str, str]] = (None, {})
        """By provider, as long as the file that names them is the same one."""

    @property
    def count_stored(self) -> bool:
        """Whether stored keys are used at all."""
        return self._keys_file is not None

    def stored(self) -> dict[str, KeyPlace]:
        """Which providers have a stored key, and where. StorageError where that cannot be read."""
        store = self._store()
        return {} if store is None else store.places()

    def origin(self, provider: str, env_key: str | None) -> str | None:
        """Where the key of a provider would come from, without asking for it; None where it has none."""
        if self.in_environment(env_key):
            return f"the environment variable {env_key}"
        place = self.stored().get(provider)
        return place and stored_origin(place)

    async def find(self, provider: str, env_key: str | None) -> ProviderKey | None:
        """The key of a provider, None where it has none. StorageError where a stored one cannot be read."""
        if value := self.in_environment(env_key):
            return ProviderKey(value, f"the environment variable {env_key}")
        store = self._store()
        place = None if store is None else store.places().get(provider)
        if store is None or place is None:
            return None
        value = await self._read_from_keyring(store, provider) if place == "keyring" else store.read(provider)
        if not value:
            return None
        self._learned(value)
        return ProviderKey(value, stored_origin(place))

    def in_environment(self, env_key: str | None) -> str:
        """The value of a variable; empty where it has none."""
        return self._variables.get(env_key, "").strip() if env_key else ""

    def _store(self) -> KeyStore | None:
        if self._keys_file is None:
            return None
        # Here and not above: most keys are in the environment.
        from tertulia.policy.key_store import KeyStore

        return KeyStore(self._keys_file, self._variables)

    async def _read_from_keyring(self, store: KeyStore, provider: str) -> str | None:
        status = os.stat(store.path)
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._from_keyring[0] != identity:
            self._from_keyring = (identity, {})
        known = self._from_keyring[1]
        if provider not in known and (value := await asyncio.to_thread(store.read, provider)):
            known[provider] = value
        return known.get(provider)


def stored_origin(place: KeyPlace) -> str:
    """Where a stored key is, fit for a sentence."""
    return f"`tertulia login` ({_PLACES[place]})"
