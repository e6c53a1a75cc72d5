"""What requests to models cost: list prices, or those of the settings. Data and arithmetic; it asks no provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import PRICES
from tertulia.protocol.items import Usage
from tertulia.protocol.validation_text import explain_validation

_Price = Annotated[float, Meta(ge=0)]
_LISTED = ("openai", "anthropic", "openrouter")
"""The providers that have the public list prices."""
_CACHED: Mapping[str, float] = {
    "claude-opus-4-5": 0.5,
    "claude-sonnet-4-5": 0.3,
    "gpt-4.1": 0.5,
    "gpt-4o": 1.25,
    "gpt-4o-mini": 0.075,
    "gpt-5": 0.125,
    "gpt-5-mini": 0.025,
    "gpt-5.2": 0.175,
}
"""Of input that the provider had in its cache."""


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[model_prices."provider/model"]`: US dollars a million tokens."""

    input: _Price
    output: _Price
    cached_input: _Price | None = None
    """Of input from the provider's cache; None: as other input."""

    def cost(self, usage: Usage) -> float:
        """US dollars for so many tokens."""
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        cheap = self.input if self.cached_input is None else self.cached_input
        plain = (usage.input_tokens - cached) * self.input + usage.output_tokens * self.output
        return (plain + cached * cheap) / 1_000_000


def price_from_wire(name: str, value: object) -> ModelPrice:
    """Parse one table; InvalidParams names what cannot be used."""
    if isinstance(value, ModelPrice):
        return value
    if "/" not in name.strip("/"):
        raise InvalidParamsError(f'model_prices: {name!r:.80} must be written "provider/model", in quotes')
    try:
        return msgspec.convert(value, ModelPrice)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(f"model_prices.{name!r:.80}: {explain_validation(error, ModelPrice)}") from None


class ModelPrices:
    """The prices of models: those of the settings, then public list prices."""

    def __init__(self, configured: Mapping[str, object]) -> None:
        self._known: dict[str, ModelPrice | None] = {
            name: price_from_wire(name, price) for name, price in configured.items()
        }

    def cost(self, model: str, usage: Usage) -> float | None:
        """US dollars of a request to `provider/model`; None where its price is not known."""
        try:
            price = self._known[model]
        except KeyError:
            price = self._known[model] = _listed_price(model)
        return None if price is None else price.cost(usage)


def _listed_price(model: str) -> ModelPrice | None:
    provider, _, path = model.partition("/")
    name = path.rsplit("/", 1)[-1].lower()
    price = PRICES.get(name) if provider in _LISTED else None
    return None if price is None else ModelPrice(*price, _CACHED.get(name))
