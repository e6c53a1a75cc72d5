"""Which model answers where nobody, or nobody in particular, was named, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import BASE_URL_VARIABLES, DEFAULT_MODELS, LOCAL_SERVERS, ModelProvider
from tertulia.models.local.weights import LOCAL_PROVIDER, WEIGHTS, can_run, first_usable_weights
from tertulia.models.server_discovery import discover_local_models

DiscoverModels = Callable[[Mapping[str, ModelProvider]], Mapping[str, list[str]]]

_TOUR = (
    "no model is configured, no key is set and no embedded model was pulled: answers come from the built-in script; "
    "use `--model provider/model`, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or `tertulia models pull smollm2`"
)
_TOUR_WITHOUT_EXTRA = (
    "no model is configured, no key is set and the embedded model was pulled but cannot run without its extra: answers "
    "come from the built-in script; use `--model provider/model`, set a key, or `pip install 'tertulia[local]'`"
)


class ModelChoice(msgspec.Struct, frozen=True):
    """A decision, and its reason in a sentence fit to be shown."""

    model: str | None
    """`provider/model`; None is the scripted tour."""
    why: str


def choose_model(
    asked: str | None,
    providers: Mapping[str, ModelProvider],
    variables: Mapping[str, str],
    home: Path,
    *,
    nearby: DiscoverModels = discover_local_models,
) -> ModelChoice:
    """Who answers: whom the settings name; else the first provider whose key is set; else the embedded model; else
    the scripted tour.

    `local` names whoever is on this machine, a server first. Only then are ports looked at, for up to about a
    second; InvalidParams says what was tried where there is nobody.
    """
    if asked == LOCAL_PROVIDER:
        return _choose_local(providers, home, nearby)
    if asked is not None:
        return ModelChoice(asked, "it is configured")
    return _by_key(providers, variables) or _by_weights(home) or ModelChoice(None, _tour(home))


def _by_key(providers: Mapping[str, ModelProvider], variables: Mapping[str, str]) -> ModelChoice | None:
    for key, model in DEFAULT_MODELS:
        if variables.get(key, "").strip():
            provider_name = model.partition("/")[0]
            moved = BASE_URL_VARIABLES[provider_name]
            elsewhere = variables.get(moved) and provider_name not in providers
            return ModelChoice(
                model, f"no model is configured, and {key} is set" + (f", with {moved}" if elsewhere else "")
            )
    return None


def _by_weights(home: Path) -> ModelChoice | None:
    weights = first_usable_weights(home)
    return weights and ModelChoice(
        weights.model, "no model is configured, no key is set, and the embedded model was pulled"
    )


def _tour(home: Path) -> str:
    pulled = any(weights.is_pulled(home) for weights in WEIGHTS)
    return _TOUR_WITHOUT_EXTRA if pulled and not can_run() else _TOUR


def _choose_local(providers: Mapping[str, ModelProvider], home: Path, nearby: DiscoverModels) -> ModelChoice:
    for name, models in nearby(providers).items():
        return ModelChoice(
            f"{name}/{models[0]}", f"{LOCAL_PROVIDER} was asked for, and a {name} server answers on this machine"
        )
    if weights := first_usable_weights(home):
        return ModelChoice(
            weights.model, f"{LOCAL_PROVIDER} was asked for, no local server answers, and this one was pulled"
        )
    tried = ", ".join(LOCAL_SERVERS)
    wanting = "no embedded model was pulled (tertulia models pull smollm2)"
    if any(weights.is_pulled(home) for weights in WEIGHTS):
        wanting = "the embedded model needs its extra (pip install 'tertulia[local]')"
    raise InvalidParamsError(f"model {LOCAL_PROVIDER!r}: no local server answers (tried {tried}), and {wanting}")
