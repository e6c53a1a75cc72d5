"""What a request costs, by list price or by the settings; and that an unknown price is no price."""

from __future__ import annotations

from typing import Any

import pytest

import tertulia
from tertulia import Session, Settings, Usage
from tertulia.models.catalog import PRICES, ModelPrice, ModelPrices
from tertulia.testing import RecordedEvents, ScriptedModel
from tests.tables import each_row

MILLION = Usage(input_tokens=1_000_000, cached_input_tokens=400_000, output_tokens=100_000)


@each_row(
    ("model", "cost"),
    [
        ("openai/gpt-5", 0.6 * 1.25 + 0.4 * 0.125 + 0.1 * 10),
        ("openrouter/openai/gpt-5", 0.6 * 1.25 + 0.4 * 0.125 + 0.1 * 10),
        ("anthropic/claude-sonnet-4-5", 0.6 * 3 + 0.4 * 0.3 + 0.1 * 15),
        ("own/gpt-5", 1.0 + 0.1 * 2),
        ("elsewhere/gpt-5", None),
        ("openai/gpt-5-unheard-of", None),
        ("scripted/x", None),
    ],
)
def test_a_request_costs_what_the_settings_or_the_list_say(model: str, cost: float | None) -> None:
    """UI.md 7.11, S002-44"""
    prices = ModelPrices({"own/gpt-5": {"input": 1, "output": 2}})
    for _ in range(2):
        found = prices.cost(model, MILLION)
        assert found == (None if cost is None else pytest.approx(cost))


def test_a_price_of_the_settings_takes_the_place_of_the_list() -> None:
    prices = ModelPrices({"openai/gpt-5": ModelPrice(0.0, 0.0)})
    assert prices.cost("openai/gpt-5", MILLION) == 0.0


def test_more_cached_input_than_input_is_not_paid_twice() -> None:
    odd = Usage(input_tokens=1_000_000, cached_input_tokens=2_000_000)
    assert ModelPrice(2.0, 2.0, 1.0).cost(odd) == 1.0


def test_every_listed_price_is_cheaper_from_the_cache() -> None:
    for name, (plain, _) in PRICES.items():
        cached = Usage(input_tokens=1_000_000, cached_input_tokens=1_000_000)
        assert 0 < (ModelPrices({}).cost(f"openai/{name}", cached) or 0) < plain


async def test_events_metrics_and_record_have_the_cost_and_none_where_it_is_not_known() -> None:
    """UI.md 7.11"""

    async def costs(**settings: Any) -> tuple[Any, Any, Any]:
        model = ScriptedModel(["one", "two"])
        async with (
            Session.start(Settings(model=model, **settings)) as session,
            RecordedEvents(session) as events,
        ):
            for _ in range(2):
                await session.root.message("hi")
            numbers = await session.metrics()
            published = [e.data.cost_usd for e in events.drain() if isinstance(e.data, tertulia.TokenCount)]
        return published, numbers.session.cost_usd, numbers.conversations[0].cost_usd

    assert await costs() == ([None, None], None, None)
    price = {"scripted/inline": {"input": 1.0, "output": 1.0}}
    first, total, own = await costs(model_prices=price, storage_policy="headers_only")
    assert all(cost > 0 for cost in first)
    assert total == own == pytest.approx(sum(first))
