"""Reads what Codex's settings say of model providers: keys of their tables, and a provider that is named by itself.

Pure. A table of Codex is one of ours in other words: `wire_api` is `wire`, and `name` is a label that is shown nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import DEFAULT_MODELS, LOCAL_PROVIDER

UNUSED_KEYS = ("name", "supports_websockets", "websocket_connect_timeout_ms")
"""Keys that change nothing here: a label, and how a connection would be made that is not made."""


def our_spelling(provider_name: str, value: object) -> object:
    """A provider's table without Codex's own keys; what is no table as it is. InvalidParams for a wire named twice.

    A table with a `name` that names no wire is one of Codex, whose wire is `responses`.
    """
    if not isinstance(value, Mapping):
        return value
    table = cast("Mapping[str, Any]", value)
    spelled = {key: entry for key, entry in table.items() if key not in UNUSED_KEYS}
    if "wire_api" in spelled:
        if "wire" in spelled:
            raise InvalidParamsError(
                f"model_providers.{provider_name} has both wire and wire_api, which are the same; leave one out"
            )
        spelled["wire"] = spelled.pop("wire_api")
    elif "name" in table:
        spelled.setdefault("wire", "responses")
    if spelled.get("requires_openai_auth") is False:
        del spelled["requires_openai_auth"]
    return spelled


def with_provider(model: str | None, provider_name: str) -> str:
    """`provider/model` for a model that is named without its provider; for None the usual model of the provider.

    A name with a slash has its provider already, and `local` is no model.
    """
    if model is None:
        usual = [name for _, name in DEFAULT_MODELS]
        own = next((name for name in usual if name.startswith(f"{provider_name}/")), usual[0])
        return f"{provider_name}/{own.partition('/')[2]}"
    return model if "/" in model or model == LOCAL_PROVIDER else f"{provider_name}/{model}"
