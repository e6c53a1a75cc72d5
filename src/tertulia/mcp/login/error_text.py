"""Why a login failed, as a sentence of ours. No word of the SDK, no code and no token is in it."""

from __future__ import annotations

import re

import httpx2
import msgspec
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from pydantic import ValidationError

from tertulia.errors import StorageError

LOGIN_ERRORS = (OAuthFlowError, OAuthRegistrationError, OAuthTokenError, ValidationError, StorageError, ValueError)
"""What the SDK's client raises where a login fails; the last for answers that are not what OAuth says."""

_SERVER_ERROR, _TOO_MANY = 500, 429
_WORD = re.compile(r"[a-z0-9_]{1,60}\Z")
_FLOW = (
    ("Protected resource", "it names another resource than its own address"),
    ("Authorization server metadata issuer", "its authorization server is not the one that it names"),
    ("Authorization response", "the answer came from another authorization server than the one that was asked"),
    ("State parameter", "the answer belongs to another login"),
    ("No authorization code", "the authorization server sent no code"),
)
"""How errors of the SDK begin, and what we say instead."""


class _Problem(msgspec.Struct):
    error: str = ""


class LoginRefusals:
    """The last response of the login that was a refusal."""

    def __init__(self) -> None:
        self._last = ""
        self.may_pass = False
        """Whether it said that the server is busy or broken, and nothing about the login."""

    def clear(self) -> None:
        """Forget it, before the next requests."""
        self._last, self.may_pass = "", False

    def note(self, response: httpx2.Response) -> None:
        """Look at a response whose body has been read."""
        if response.status_code < httpx2.codes.BAD_REQUEST:
            return
        self.may_pass = response.status_code >= _SERVER_ERROR or response.status_code == _TOO_MANY
        try:
            word = msgspec.json.decode(response.content, type=_Problem).error
        except msgspec.DecodeError:
            word = ""
        code = f", {word}" if _WORD.match(word) else ""
        self._last = f" (HTTP status {response.status_code}{code})"

    def __str__(self) -> str:
        return self._last


def explain_login_error(error: Exception, server: str, refusals: LoginRefusals) -> str:
    """One sentence with a way out."""
    match error:
        case StorageError():
            return error.message
        case OAuthRegistrationError():
            way_out = f"name a client that it knows: mcp_servers.{server}.oauth.client_id"
            return f"its authorization server does not register us{refusals}; {way_out}"
        case OAuthTokenError():
            return f"its authorization server gave no token{refusals}; `tertulia mcp login {server}` tries again"
        case OAuthFlowError():
            text = str(error)
            why = next((ours for theirs, ours in _FLOW if text.startswith(theirs)), f"it failed{refusals}")
            return f"its login cannot be used: {why}"
        case _:
            return f"its login cannot be used: what it answers is not what OAuth says{refusals}"
