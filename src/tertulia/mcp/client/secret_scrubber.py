"""Removes a server's configured secrets from everything that it returns.

Exact values only: what merely looks like a key may be the answer that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

import msgspec

from tertulia.policy.redaction import MIN_SECRET

T = TypeVar("T")
REPLACEMENT = "[redacted:secret]"


class SecretScrubber:
    """The secrets of one server."""

    __slots__ = ("_encoded", "_secrets")

    def __init__(self, secrets: Iterable[str]) -> None:
        """Values shorter than `MIN_SECRET` are taken for words and stay."""
        self._secrets: list[str] = []
        self._encoded: list[bytes] = []
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Replace these as well from now on."""
        spellings = {form for secret in secrets if len(secret) >= MIN_SECRET for form in (secret, _quoted(secret))}
        # The longest first: one value may be the beginning of another.
        self._secrets = sorted({*self._secrets, *spellings}, key=lambda secret: (-len(secret), secret))
        self._encoded = [_quoted(secret).encode() for secret in self._secrets]

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        for secret in self._secrets:
            text = text.replace(secret, REPLACEMENT)
        return text

    def clean(self, data: T) -> T:
        """Plain data, or a struct of it, with every secret replaced; the same object where it contains none."""
        if not self._secrets:
            return data
        encoded = msgspec.json.encode(data)
        if not any(secret in encoded for secret in self._encoded):
            return data
        return msgspec.convert(self._scrubbed(msgspec.json.decode(encoded)), type(data))

    def _scrubbed(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._scrubbed(item) for item in cast("list[Any]", value)]
            case dict():
                return {self.text(key): self._scrubbed(item) for key, item in cast("dict[str, Any]", value).items()}
            case _:
                return value


def _quoted(text: str) -> str:
    """As JSON escapes it: texts of servers are often JSON themselves."""
    return msgspec.json.encode(text)[1:-1].decode()
