"""The logins that `tertulia mcp login` keeps, one for each server: in the keyring, or in a file of the user's own.

A login holds for one address: a server that is configured with another address gets nothing of it. Every method may
wait for a keyring, so it is called in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tertulia.policy.key_store import KeyKind, KeyPlace, KeyStore

FILE_NAME = "mcp-logins.json"
_KIND = KeyKind("login", "tertulia mcp login", "MCP server ")


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to use a login in another process. Its repr shows the address only."""

    url: str
    tokens: dict[str, Any]
    """The token response, as the authorization server gave it."""
    expires_at: float | None = None
    """When the access token ends, in seconds since 1970."""
    client: dict[str, Any] = {}
    """What we are called at the authorization server."""
    authorization_server: dict[str, Any] | None = None
    """Its metadata: where tokens are renewed and revoked."""
    resource: dict[str, Any] | None = None
    """The metadata of the MCP server."""
    wanted_scopes: str = ""
    """Scopes that the server asked for since, and this login does not have."""

    def __repr__(self) -> str:
        return f"StoredLogin({self.url!r})"

    def secrets(self) -> list[str]:
        """The values that must not be shown."""
        named = (self.tokens.get("access_token"), self.tokens.get("refresh_token"), self.client.get("client_secret"))
        return [value for value in named if isinstance(value, str) and value]


class LoginStore:
    """The logins of one data directory, by the name of the server. StorageError where one cannot be read or kept."""

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        """`variables`: the environment that the keyring's program is started with."""
        self.path = home / FILE_NAME
        self._keys = KeyStore(self.path, variables, _KIND)

    def names(self) -> list[str]:
        """The servers that have a login. No keyring is asked."""
        return sorted(self._keys.places())

    def place(self, server: str) -> KeyPlace | None:
        """Where the login to a server is; None where there is none."""
        return self._keys.places().get(server)

    def read(self, server: str, url: str | None = None) -> StoredLogin | None:
        """The login to a server at that address (None: at any); None where there is none."""
        text = self._keys.read(server)
        if text is None:
            return None
        try:
            login = msgspec.json.decode(text, type=StoredLogin)
        except msgspec.DecodeError:
            # Kept by another version: the person logs in again.
            return None
        return login if url in (None, login.url) else None

    def keep(self, server: str, login: StoredLogin) -> KeyPlace:
        """Keep a login in place of an earlier one; returns where it is now."""
        return self._keys.keep(server, msgspec.json.encode(login).decode())

    def remove(self, server: str) -> KeyPlace | None:
        """Forget a login; returns where it was, None where there was none."""
        return self._keys.remove(server)
