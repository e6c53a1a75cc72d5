"""Who answers where nobody in particular was named, in the order that is promised, and with the true reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import ModelProvider
from tertulia.models.choice import ModelChoice, choose_model
from tests.models.local_staging import weights_of

OPENAI, ANTHROPIC = {"OPENAI_API_KEY": "canary-key"}, {"ANTHROPIC_API_KEY": "canary-key"}
GATEWAY = {"OPENAI_BASE_URL": "https://me:canary@gateway.example/v1"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing was pulled, but it could run."""
    weights = weights_of(5)
    monkeypatch.setattr("tertulia.models.local.weights.WEIGHTS", (weights,))
    monkeypatch.setattr("tertulia.models.choice.WEIGHTS", (weights,))
    can_run(monkeypatch, True)
    return tmp_path


def can_run(monkeypatch: pytest.MonkeyPatch, whether: bool) -> None:
    for module in ("local.weights", "choice"):
        monkeypatch.setattr(f"tertulia.models.{module}.can_run", lambda: whether)


def pull(home: Path) -> None:
    path = weights_of(5).path(home)
    path.parent.mkdir()
    path.write_bytes(b"12345")


def nobody(_: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
    return {}


def never(_: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
    raise AssertionError("ports were knocked at, and nobody had asked for that")


def choose(
    asked: str | None, home: Path, variables: Mapping[str, str] = {}, providers: Mapping[str, ModelProvider] = {}
) -> ModelChoice:
    return choose_model(asked, providers, variables, home, nearby=never)


def test_what_is_configured_goes_before_everything(home: Path) -> None:
    pull(home)
    assert choose("acme/best", home, OPENAI) == ModelChoice("acme/best", "it is configured")


def test_a_key_goes_before_the_embedded_model(home: Path) -> None:
    pull(home)
    assert choose(None, home, ANTHROPIC).model == "anthropic/claude-sonnet-4-5"
    assert choose(None, home, {**ANTHROPIC, **OPENAI}).model == "openai/gpt-5.2"


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_a_key_that_is_empty_is_none(home: Path, empty: str) -> None:
    assert choose(None, home, {"OPENAI_API_KEY": empty, **ANTHROPIC}).model == "anthropic/claude-sonnet-4-5"


def test_the_reason_names_the_variables_and_no_value(home: Path) -> None:
    assert choose(None, home, OPENAI).why == "no model is configured, and OPENAI_API_KEY is set"
    moved = choose(None, home, OPENAI | GATEWAY)
    assert moved.why == "no model is configured, and OPENAI_API_KEY is set, with OPENAI_BASE_URL"
    table = {"openai": ModelProvider(base_url="https://other.example/v1", wire="chat")}
    assert "OPENAI_BASE_URL" not in choose(None, home, OPENAI | GATEWAY, table).why


def test_without_a_key_the_embedded_model_answers_if_it_was_pulled(home: Path) -> None:
    pull(home)
    assert choose(None, home) == ModelChoice(
        "local/smollm2", "no model is configured, no key is set, and the embedded model was pulled"
    )


def test_with_nothing_at_all_it_is_the_tour_and_says_exactly_that(home: Path) -> None:
    choice = choose(None, home)
    assert choice.model is None
    assert "no key is set and no embedded model was pulled: answers come from the built-in script" in choice.why
    assert "tertulia models pull smollm2" in choice.why


def test_weights_without_their_extra_are_no_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pull(home)
    can_run(monkeypatch, False)
    choice = choose(None, home)
    assert choice.model is None
    assert "was pulled but cannot run" in choice.why
    assert "pip install 'tertulia[local]'" in choice.why


# ---- local


def test_local_is_a_server_of_this_machine_first(home: Path) -> None:
    pull(home)
    asked: list[Mapping[str, ModelProvider]] = []

    def nearby(providers: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
        asked.append(providers)
        return {"lmstudio": ["org/model", "other"], "vllm": ["big"]}

    table = {"ollama": ModelProvider(base_url="http://127.0.0.1:9/v1", wire="chat")}
    choice = choose_model("local", table, OPENAI, home, nearby=nearby)
    assert choice == ModelChoice(
        "lmstudio/org/model", "local was asked for, and a lmstudio server answers on this machine"
    )
    assert asked == [table]


def test_local_is_the_embedded_model_where_no_server_answers(home: Path) -> None:
    pull(home)
    choice = choose_model("local", {}, OPENAI, home, nearby=nobody)
    assert choice.model == "local/smollm2"
    assert "no local server answers" in choice.why


def test_local_without_anybody_is_refused_with_what_was_tried(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParamsError, match=r"tried ollama, lmstudio, vllm, llamacpp.*models pull smollm2"):
        choose_model("local", {}, OPENAI, home, nearby=nobody)
    pull(home)
    can_run(monkeypatch, False)
    with pytest.raises(InvalidParamsError, match=r"needs its extra .pip install 'tertulia\[local\]'"):
        choose_model("local", {}, OPENAI, home, nearby=nobody)
