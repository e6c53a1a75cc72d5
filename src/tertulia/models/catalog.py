"""Where models are reached: `provider/model` names a model, and a provider is an entry here.

What is known of a provider is plain data; the wires that speak to it are its siblings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tertulia.errors import InvalidParams

WireName = Literal["responses", "chat", "messages"]

_Positive = Annotated[int, Meta(gt=0)]
_Count = Annotated[int, Meta(ge=0)]


class ModelProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[model_providers.NAME]`: an address, how it is spoken to, and what it may cost in patience."""

    base_url: str
    """What precedes `/responses`, `/chat/completions` or `/v1/messages`."""
    wire: WireName
    env_key: str | None = None
    """The environment variable that holds the key; never the key."""
    context_window: _Positive = 128_000
    """In tokens."""
    request_max_retries: _Count = 4
    """After a refusal that may pass: 5xx and 429."""
    stream_max_retries: _Count = 4
    """After a stream that was cut."""
    stream_idle_timeout_ms: _Positive = 300_000
    """A stream that says nothing for so long counts as cut."""


def provider_from_wire(name: str, value: object) -> ModelProvider:
    """Parse one table; a refusal names the field and repeats no value, because an address may hold a password."""
    if isinstance(value, ModelProvider):
        return value
    if not name or "/" in name:
        raise InvalidParams(f"model_providers: {name!r} cannot be the first half of provider/model")
    if not isinstance(value, Mapping):
        raise InvalidParams(f"model_providers.{name} must be a table with base_url and wire")
    try:
        provider = msgspec.convert(value, ModelProvider)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"model_providers.{name}: {error}") from None
    if not provider.base_url.startswith(("http://", "https://")):
        raise InvalidParams(f"model_providers.{name}.base_url must start with http:// or https://")
    return provider
