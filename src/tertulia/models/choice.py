"""Chooses the model that answers: the one that is named, that of a key, pulled weights, or on request a local server.

Asks the usual ports of model servers for their models, only when it is called and within a deadline, and says why it
chose as it did. Sends nothing to any other host, and starts nothing. `NoModel` stands where no model is set up, so that
a session can begin before one is, or have executors do its work.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import AsyncGenerator, Callable, Container, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tertulia.errors import InvalidParamsError, NoModelError
from tertulia.models.catalog import (
    BASE_URL_VARIABLES,
    DEFAULT_MODELS,
    LOCAL_PROVIDER,
    LOCAL_SERVERS,
    PROVIDERS,
    ModelProvider,
)
from tertulia.models.wire import AnswerFailure, AnswerPiece, ItemsDialect, ModelRequest

TIMEOUT_S = 0.3
_LONGEST_LIST = 1 << 20


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


_models = msgspec.json.Decoder(_Models)


def discover_local_models(configured: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
    """The usual local servers that answer, in their usual order, each with its models.

    Asks each for its list of models, all at once and each for as long as `TIMEOUT_S`, and sends nothing else. A server
    of another address than loopback is not asked, even if it is configured.
    """
    models_by_server: dict[str, list[str]] = {}

    def ask(name: str, base_url: str) -> None:
        if models := _list_models(base_url):
            models_by_server[name] = models

    addresses = {name: (configured.get(name) or PROVIDERS[name]).base_url for name in LOCAL_SERVERS}
    # In threads, because a socket's timeout starts anew with each byte: a server that sends slowly would block for
    # ever.
    threads = [threading.Thread(target=ask, args=address, daemon=True) for address in addresses.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    answered = dict(models_by_server)
    return {name: answered[name] for name in LOCAL_SERVERS if name in answered}


def _list_models(base_url: str) -> list[str]:
    # Imported here: it takes as long as everything else that a session imports for its models.
    import http.client

    try:
        address = urlsplit(base_url)
        host, port = address.hostname or "", address.port or 80
        if address.scheme != "http" or not _is_loopback(host):
            return []
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"{address.path.rstrip('/')}/models")
            answer = connection.getresponse()
            body = answer.read(_LONGEST_LIST) if answer.status == 200 else b""
        finally:
            connection.close()
        return [model.id for model in _models.decode(body).data if model.id]
    except (OSError, ValueError, http.client.HTTPException, msgspec.DecodeError, RecursionError):
        # What listens there is not a model server.
        return []


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


DiscoverModels = Callable[[Mapping[str, ModelProvider]], Mapping[str, list[str]]]

_WAYS = (
    "no model is set up. Name one as provider/model (`--model`, or `model` in the settings); or set OPENAI_API_KEY or "
    "ANTHROPIC_API_KEY, or keep a key with `tertulia login PROVIDER`; or use a model server on this machine "
    "(`--model local`); or {embedded}"
)
_PULL = "run `tertulia models pull smollm2` for the embedded model"
_INSTALL = "install what the embedded model that was pulled needs to run: `pip install 'tertulia[local]'`"


class ModelChoice(msgspec.Struct, frozen=True):
    """A decision, and its reason in a sentence fit to be shown."""

    model: str | None
    """`provider/model`; None where there is no model."""
    why: str


def choose_model(
    configured: str | None,
    providers: Mapping[str, ModelProvider],
    variables: Mapping[str, str],
    home: Path,
    *,
    stored: Callable[[], Container[str]] = tuple,
    nearby: DiscoverModels = discover_local_models,
) -> ModelChoice:
    """Which model answers: the one the settings name; else the first provider whose key is set, or else is among the
    `stored` ones; else the embedded model; else none, and `why` lists the ways to get one.

    `local` names a model on this machine, that of a server first. Only then are ports looked at, for up to about a
    second; InvalidParams says what was tried where there is none.
    """
    if configured == LOCAL_PROVIDER:
        return _choose_local(providers, home, nearby)
    if configured is not None:
        return ModelChoice(configured, "it is configured")
    return (
        _by_key(providers, variables) or _by_stored_key(stored()) or _by_weights(home) or ModelChoice(None, _ways(home))
    )


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


def _by_stored_key(stored: Container[str]) -> ModelChoice | None:
    for key, model in DEFAULT_MODELS:
        if (provider_name := model.partition("/")[0]) in stored:
            why = f"no model is configured, {key} is not set, and `tertulia login` keeps a key for {provider_name}"
            return ModelChoice(model, why)
    return None


def _by_weights(home: Path) -> ModelChoice | None:
    # Imported here and below: most runs name their model.
    from tertulia.models.local.weights import first_usable_weights

    weights = first_usable_weights(home)
    return weights and ModelChoice(
        weights.model, "no model is configured, no key is there, and the embedded model was pulled"
    )


def _ways(home: Path) -> str:
    from tertulia.models.local.weights import WEIGHTS, can_run

    pulled = any(weights.is_pulled(home) for weights in WEIGHTS)
    return _WAYS.format(embedded=_INSTALL if pulled and not can_run() else _PULL)


def _choose_local(providers: Mapping[str, ModelProvider], home: Path, nearby: DiscoverModels) -> ModelChoice:
    from tertulia.models.local.weights import WEIGHTS, first_usable_weights

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


NO_MODEL = "none"
"""The name of the wire."""


class NoModel:
    """Implements `Wire` and answers nothing: every request fails with the ways to get a model."""

    name = NO_MODEL
    family = NO_MODEL
    context_window = 128_000
    dialect = ItemsDialect()

    def __init__(self, reason: str) -> None:
        self.reason = reason
        """Why there is none, and how to get one."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """Fail at once, with the reason that there is no model."""
        yield AnswerFailure(self.reason, NoModelError.code)

    async def close(self) -> None:
        """Close nothing: it has no connections."""
