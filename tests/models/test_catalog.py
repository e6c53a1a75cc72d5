"""Providers of models, as configuration files describe them."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import (
    BASE_URL_VARIABLES,
    DEFAULT_MODELS,
    DEFAULT_WINDOW,
    LOCAL_SERVERS,
    PROVIDERS,
    ModelProvider,
    locate_model,
    model_facts,
    model_family,
    provider_from_wire,
)
from tests.docs.pages import names, table, text
from tests.tables import each_row

PLAIN = {"base_url": "https://api.example.org/v1", "wire": "chat"}


def test_a_provider_needs_no_more_than_an_address_and_a_wire() -> None:
    provider = provider_from_wire("acme", PLAIN)
    assert provider == ModelProvider(base_url="https://api.example.org/v1", wire="chat")
    assert (provider.env_key, provider.context_window) == (None, 128_000)
    assert provider.request_max_retries == provider.stream_max_retries == 4


def test_a_provider_object_is_taken_as_it_is() -> None:
    provider = ModelProvider(base_url="http://localhost:1", wire="messages", env_key="KEY")
    assert provider_from_wire("local", provider) is provider


@each_row(
    ("value", "expected"),
    [
        ("https://x", "must be a table"),
        ({"wire": "chat"}, "base_url"),
        ({"base_url": "https://x"}, "wire"),
        (PLAIN | {"wire": "soap"}, "wire: expected one of chat, messages, responses"),
        (PLAIN | {"base_url": "ftp://x"}, r"base_url must start with http"),
        (PLAIN | {"context_window": 0}, "context_window"),
        (PLAIN | {"request_max_retries": -1}, "request_max_retries"),
        (PLAIN | {"stream_idle_timeout_ms": "soon"}, "stream_idle_timeout_ms"),
        (PLAIN | {"stream_progress_timeout_ms": 0}, "stream_progress_timeout_ms"),
        (PLAIN | {"max_answer_characters": -1}, "max_answer_characters"),
        (PLAIN | {"max_argument_characters": "many"}, "max_argument_characters"),
        (PLAIN | {"api_key": "k"}, "api_key"),
    ],
)
def test_a_wrong_provider_is_refused_by_name_and_field(value, expected) -> None:
    with pytest.raises(InvalidParamsError, match=rf"model_providers\.acme.*{expected}"):
        provider_from_wire("acme", value)


@each_row("name", ["", "a/b", "a\nb", "\udcff"])
def test_a_provider_must_be_nameable(name) -> None:
    with pytest.raises(InvalidParamsError, match="cannot be the first half of provider/model"):
        provider_from_wire(name, PLAIN)


def test_a_refusal_does_not_repeat_the_address() -> None:
    """E6: an address may hold a password."""
    with pytest.raises(InvalidParamsError) as refusal:
        provider_from_wire("acme", {"base_url": "canary:secret@host", "wire": "chat"})
    assert "secret" not in refusal.value.message


# ---- what is known of a model


@each_row(
    ("model", "window"),
    [
        ("gpt-5.2", 400_000),
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("claude-sonnet-4-5", 200_000),
        ("claude-3-haiku", 200_000),
        ("openai/gpt-4.1", 1_047_576),
        ("Claude-Opus-4-1", 200_000),
        ("smollm2", 8_192),
        ("gemini-9", None),
        ("", None),
    ],
)
def test_a_model_is_known_by_the_beginning_of_its_name(model, window) -> None:
    assert model_facts(model).context_window == window


def test_the_longest_beginning_counts() -> None:
    assert model_facts("gpt-4o-mini").price == (0.15, 0.60)
    assert model_facts("gpt-4o").price == (2.5, 10.0)
    assert model_facts("claude-sonnet-4-5").reasoning
    assert not model_facts("claude-3-haiku").reasoning


def test_only_the_embedded_model_is_offered_no_tools() -> None:
    assert model_facts("gpt-5.2").tools
    assert model_facts("whatever").tools
    assert not model_facts("smollm2").tools
    assert not model_facts("local/smollm2").tools
    assert model_facts("local/smollm2:tools").tools


@each_row(
    ("model", "expected"),
    [
        ("gpt-5.2", "gpt-5"),
        ("openai/GPT-5.2-Codex", "gpt-5-codex"),
        ("o3-mini", "o3"),
        ("claude-sonnet-4@20250514", "claude"),
        ("openrouter/org/Model-X", None),
    ],
)
def test_models_of_one_family_share_prompts(model, expected) -> None:
    assert model_family(model) == expected


# ---- finding a provider


def test_a_model_is_found_with_its_provider() -> None:
    found = locate_model("openai/gpt-5.2", {}, {})
    assert (found.name, found.model, found.provider) == ("openai/gpt-5.2", "gpt-5.2", PROVIDERS["openai"])
    assert found.context_window == 400_000


def test_what_follows_the_first_slash_is_the_model() -> None:
    found = locate_model("openrouter/meta/llama-3", {}, {})
    assert (found.provider_name, found.model) == ("openrouter", "meta/llama-3")
    assert found.context_window == DEFAULT_WINDOW


def test_a_table_takes_the_place_of_a_built_in_provider() -> None:
    mine = provider_from_wire("openai", PLAIN)
    assert locate_model("openai/gpt-5.2", {"openai": mine}, {}).provider is mine


def test_the_providers_own_window_goes_before_what_is_known() -> None:
    mine = provider_from_wire("acme", PLAIN | {"context_window": 32_000})
    assert locate_model("acme/gpt-5", {"acme": mine}, {}).context_window == 32_000
    plain = provider_from_wire("acme", PLAIN)
    assert locate_model("acme/gpt-5", {"acme": plain}, {}).context_window == 400_000
    assert locate_model("acme/own", {"acme": plain}, {}).context_window == DEFAULT_WINDOW


@each_row(("name", "variable"), [("openai", "OPENAI_BASE_URL"), ("anthropic", "ANTHROPIC_BASE_URL")])
def test_a_variable_takes_a_built_in_provider_elsewhere(name, variable) -> None:
    moved = locate_model(f"{name}/m", {}, {variable: "https://gateway.example/v1/"}).provider
    assert moved.base_url == "https://gateway.example/v1"
    assert (moved.wire, moved.env_key) == (PROVIDERS[name].wire, PROVIDERS[name].env_key)
    assert locate_model(f"{name}/m", {}, {variable: ""}).provider is PROVIDERS[name]


def test_that_variable_does_not_move_a_provider_of_the_settings() -> None:
    mine = provider_from_wire("openai", PLAIN)
    assert locate_model("openai/m", {"openai": mine}, {"OPENAI_BASE_URL": "https://gateway.example"}).provider is mine
    assert locate_model("ollama/m", {}, {"": "https://gateway.example"}).provider is PROVIDERS["ollama"]


@each_row("model", ["", "gpt-5.2", "openai/", "/gpt-5.2", "x" * 1000, "openai/\udcff", "openai/a\nb"])
def test_a_name_without_two_halves_is_refused(model) -> None:
    with pytest.raises(InvalidParamsError, match=r"must be written `provider/model`|unknown provider ''") as refusal:
        locate_model(model, {}, {})
    assert len(refusal.value.message) < 300


def test_an_unknown_provider_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        InvalidParamsError, match=r"unknown provider 'nobody'.*acme, anthropic.*\[model_providers.NAME\]"
    ):
        locate_model("nobody/m", {"acme": provider_from_wire("acme", PLAIN)}, {})


def test_local_servers_are_providers_on_this_machine_that_want_no_key() -> None:
    for name in LOCAL_SERVERS:
        assert PROVIDERS[name].base_url.startswith("http://127.0.0.1:")
        assert PROVIDERS[name].env_key is None


def test_every_default_model_has_a_provider_with_that_key() -> None:
    for key, model in DEFAULT_MODELS:
        found = locate_model(model, {}, {})
        assert found.provider.env_key == key
        assert found.provider_name in BASE_URL_VARIABLES
        assert model_facts(found.model).tools


# ---- what the page about models says


def test_the_page_lists_every_provider() -> None:
    rows = table("models.md", "provider", "speaks", "at", "key")
    listed = [tuple(tuple(names(cell)) for cell in row) for row in rows]
    expected = [
        (
            (name,),
            (provider.wire,),
            tuple(filter(None, (provider.base_url, BASE_URL_VARIABLES.get(name)))),
            tuple(filter(None, (provider.env_key,))),
        )
        for name, provider in PROVIDERS.items()
    ]
    assert listed == expected


def test_the_page_lists_every_field_of_a_provider_with_its_default() -> None:
    rows = table("models.md", "field", "default", "what it is")
    defaults = {field.name: field.default for field in msgspec.structs.fields(ModelProvider)}
    shown = {names(row[0])[0]: row[1].strip("`") for row in rows}
    words = {msgspec.NODEFAULT: "", None: "none"}
    assert shown == {name: words.get(value, str(value)) for name, value in defaults.items()}


def test_the_page_names_the_models_that_a_key_stands_for() -> None:
    page = text("models.md")
    for key, model in DEFAULT_MODELS:
        assert f"`{key}`" in page
        assert f"`{model}`" in page
