"""What a server was given in confidence, taken out of everything that it says: nobody who listens reads it back.

Exact values only. What merely looks like a key may be what the server is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

import msgspec

from tertulia.policy.redaction import MIN_SECRET

T = TypeVar("T")
REPLACEMENT = "[redacted:secret]"


class SecretScrubber:
    """The secrets of one server. Knows none at first sight: shows nothing of itself."""

    __slots__ = ("_secrets", "_written")

    def __init__(self, secrets: Iterable[str]) -> None:
        """Those that are shorter than a secret can be are words, and stay."""
        known = {form for secret in secrets if len(secret) >= MIN_SECRET for form in (secret, _quoted(secret))}
        # The longest first: one value may be the beginning of another.
        self._secrets = sorted(known, key=lambda secret: (-len(secret), secret))
        self._written = [_quoted(secret).encode() for secret in self._secrets]

    def text(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            text = text.replace(secret, REPLACEMENT)
        return text

    def clean(self, said: T) -> T:
        """Plain data, or a struct of it, without them; the same object where there are none."""
        if not self._secrets:
            return said
        written = msgspec.json.encode(said)
        if not any(secret in written for secret in self._written):
            return said
        return msgspec.convert(self._walked(msgspec.json.decode(written)), type(said))

    def _walked(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._walked(each) for each in cast("list[Any]", value)]
            case dict():
                return {self.text(k): self._walked(each) for k, each in cast("dict[str, Any]", value).items()}
            case _:
                return value


def _quoted(text: str) -> str:
    """As JSON writes it: texts of servers are often JSON themselves."""
    return msgspec.json.encode(text)[1:-1].decode()
