"""Providers of models, as configuration files describe them."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParams
from tertulia.models.catalog import ModelProvider, provider_from_wire

PLAIN = {"base_url": "https://api.example.org/v1", "wire": "chat"}


def test_a_provider_needs_no_more_than_an_address_and_a_wire() -> None:
    provider = provider_from_wire("acme", PLAIN)
    assert provider == ModelProvider(base_url="https://api.example.org/v1", wire="chat")
    assert (provider.env_key, provider.context_window) == (None, 128_000)
    assert provider.request_max_retries == provider.stream_max_retries == 4


def test_a_provider_object_is_taken_as_it_is() -> None:
    provider = ModelProvider(base_url="http://localhost:1", wire="messages", env_key="KEY")
    assert provider_from_wire("local", provider) is provider


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("https://x", "must be a table"),
        ({"wire": "chat"}, "base_url"),
        ({"base_url": "https://x"}, "wire"),
        (PLAIN | {"wire": "soap"}, "soap"),
        (PLAIN | {"base_url": "ftp://x"}, r"base_url must start with http"),
        (PLAIN | {"context_window": 0}, "context_window"),
        (PLAIN | {"request_max_retries": -1}, "request_max_retries"),
        (PLAIN | {"stream_idle_timeout_ms": "soon"}, "stream_idle_timeout_ms"),
        (PLAIN | {"api_key": "k"}, "api_key"),
    ],
)
def test_a_wrong_provider_is_refused_by_name_and_field(value, said) -> None:
    with pytest.raises(InvalidParams, match=rf"model_providers\.acme.*{said}"):
        provider_from_wire("acme", value)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_provider_must_be_nameable(name) -> None:
    with pytest.raises(InvalidParams, match="cannot be the first half of provider/model"):
        provider_from_wire(name, PLAIN)


def test_a_refusal_does_not_repeat_the_address() -> None:
    """E6: an address may hold a password."""
    with pytest.raises(InvalidParams) as refusal:
        provider_from_wire("acme", {"base_url": "canary:secret@host", "wire": "chat"})
    assert "secret" not in refusal.value.message
