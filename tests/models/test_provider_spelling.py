"""What Codex's settings say of providers, in our words."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import ModelProvider
from tertulia.models.provider_spelling import our_spelling, with_provider
from tertulia.session.settings.settings import Settings
from tests.tables import each_row

URL = "http://127.0.0.1:9/v1"


@each_row(
    "table, wire",
    [
        ({"name": "Mine", "base_url": URL}, "responses"),
        ({"name": "Mine", "base_url": URL, "wire_api": "chat", "supports_websockets": False}, "chat"),
        ({"base_url": URL, "wire_api": "responses", "requires_openai_auth": False}, "responses"),
        ({"base_url": URL, "wire": "messages", "name": "Mine"}, "messages"),
    ],
)
def test_a_table_of_codex_is_one_of_ours(table, wire) -> None:
    """Issue 25 (1): `wire_api` and `name`."""
    before = dict(table)
    (provider,) = Settings(model_providers={"mine": table}).model_providers.values()
    assert (provider["base_url"] if isinstance(provider, dict) else provider.base_url, provider.wire) == (URL, wire)
    assert table == before


@each_row(
    "table, words",
    [
        ({"base_url": URL}, "wire"),
        ({"base_url": URL, "wire": "chat", "wire_api": "chat"}, "both wire and wire_api"),
        ({"base_url": URL, "wire_api": "telepathy"}, "wire"),
        ({"name": "Mine", "base_url": URL, "requires_openai_auth": True}, "no ChatGPT account"),
        ("chat", "must be a table"),
    ],
)
def test_what_is_no_table_of_either_is_refused(table, words) -> None:
    with pytest.raises(InvalidParamsError, match=words):
        Settings(model_providers={"mine": table})


def test_what_is_parsed_already_stays_as_it_is() -> None:
    provider = ModelProvider(base_url=URL, wire="chat")
    assert our_spelling("mine", provider) is provider


@each_row(
    "model, provider, whole",
    [
        ("m", "mine", "mine/m"),
        ("other/m", "mine", "other/m"),
        ("local", "mine", "local"),
        (None, "mine", "mine/gpt-5.2"),
        (None, "anthropic", "anthropic/claude-sonnet-4-5"),
    ],
)
def test_a_model_without_a_provider_gets_the_usual_one(model, provider, whole) -> None:
    """Issue 25 (1): `model_provider`."""
    assert with_provider(model, provider) == whole
    assert Settings(model=model, model_provider=provider).model == whole


@each_row("value", ["", "a/b", "a\0b", 5, ["openai"]])
def test_a_name_that_is_none_of_a_provider_is_refused(value) -> None:
    with pytest.raises(InvalidParamsError, match="model_provider"):
        Settings(model_provider=value)
