"""The catalogue of providers and models: where a provider is reached, and what is known of a model.

Plain data and its parser; it opens no connection. `provider/model` names a model. What is not listed works all the
same: a provider is described in the settings, and an unknown model has its provider's window.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.shell_environment import check_variable_name
from tertulia.protocol.conversation_fields import ReasoningEffort
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.protocol.name_hints import name_hint
from tertulia.protocol.validation_text import explain_validation

if TYPE_CHECKING:
    from tertulia.protocol.network.access import OutboundNetwork

DEFAULT_WINDOW = 128_000

_FAMILY = re.compile(r"(?:.*/)?(gpt-\d+|o\d|claude)(?:.*(-codex))?")

WireName = Literal["responses", "chat", "messages"]

_Positive = Annotated[int, Meta(gt=0)]
_Count = Annotated[int, Meta(ge=0)]


class ModelProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[model_providers.NAME]`: the address of a provider, its API, and the limits of waiting for it."""

    base_url: str
    """What precedes `/responses`, `/chat/completions` or `/v1/messages`."""
    wire: WireName
    env_key: str | None = None
    """The environment variable that holds the key; never the key."""
    context_window: _Positive = DEFAULT_WINDOW
    """How many tokens request and answer may have together."""
    reasoning_effort: ReasoningEffort | None = None
    """The reasoning effort of its models, where neither the conversation nor the session sets one."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Their sampling temperature, where neither sets one."""
    max_output_tokens: _Positive | None = None
    """The most tokens of one answer, where neither sets a number."""
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    """The kind of summary of their reasoning that its models are asked for (`responses`)."""
    thinking_budget_tokens: Annotated[int, Meta(ge=1024)] | None = None
    """The most tokens that its models may think before an answer (`messages`)."""
    service_tier: Annotated[str, Meta(pattern="^[a-z_]{1,40}$")] | None = None
    """The tier in which requests are served, as the provider calls it."""
    http_headers: dict[str, str] | None = None
    """Headers of every request besides our own. Never a key."""
    query_params: dict[str, str] | None = None
    """What is added to the address of every request, such as `api-version`."""
    ca_file: str | None = None
    """A file with certificates that it is trusted by, besides the system's; instead of the setting of that name."""
    prompt_cache_key: bool | None = None
    """Whether requests name what they share with others. None: only to servers that are known to take it."""
    request_max_retries: _Count = 4
    """How often a request is sent again after a refusal that may be temporary: 5xx and 429."""
    stream_max_retries: _Count = 4
    """How often a request is sent again after its stream broke off."""
    stream_idle_timeout_ms: _Positive = 300_000
    """A stream that sends no byte for so long counts as broken."""
    stream_progress_timeout_ms: _Positive = 600_000
    """So does one in which the answer does not grow for so long: keep-alives alone are no progress."""
    max_answer_characters: _Positive = MAX_TEXT_BYTES
    """A longer answer is aborted."""
    max_argument_characters: _Positive = 2_000_000
    """So is one with a tool call of longer arguments; no model writes as much in one answer."""


_NO_HEADERS = "the key of env_key is sent as the API wants it, and http_headers has the others; leave it out"
_NOTES = {
    "api_key": "the key itself stays out of files: put it into a variable, and its name into env_key",
    "auth": _NO_HEADERS,
    "aws": "Tertulia does not sign requests for AWS; use a server that takes a key",
    "env_http_headers": _NO_HEADERS,
    "env_key_instructions": "leave it out; a missing key is explained without it",
    "experimental_bearer_token": "the key itself stays out of files: put it into a variable, and its name into env_key",
    "model": 'it is no part of a provider: write model = "PROVIDER/MODEL" above all tables',
    "models": 'a provider needs no list of models: write model = "PROVIDER/MODEL" above all tables',
    **dict.fromkeys(("name", "supports_websockets", "websocket_connect_timeout_ms"), "leave it out"),
    "requires_openai_auth": "Tertulia uses keys and no ChatGPT account; write env_key",
    "supports_standalone_web_search": "leave it out; tools_web_search_request switches web search",
    "type": 'leave it out, and write wire = "responses", "chat" or "messages"',
}
"""Advice for keys that Codex and other programs have, and that correspond to no single key here."""


def provider_from_wire(name: str, value: object) -> ModelProvider:
    """Parse one table; a refusal names the field and repeats no value, because an address may hold a password."""
    if isinstance(value, ModelProvider):
        return _checked(name, value)
    if not name or "/" in name or not name.isprintable():
        raise InvalidParamsError(f"model_providers: {name!r} cannot be the first half of provider/model")
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"model_providers.{name} must be a table with base_url and wire")
    try:
        provider = msgspec.convert(value, ModelProvider)
    except msgspec.ValidationError as error:
        problem = explain_validation(error, ModelProvider, notes=_NOTES)
        raise InvalidParamsError(f"model_providers.{name}: {problem}") from None
    if not provider.base_url.startswith(("http://", "https://")):
        raise InvalidParamsError(f"model_providers.{name}.base_url must start with http:// or https://")
    if provider.env_key is not None:
        check_variable_name(provider.env_key, f"model_providers.{name}.env_key")
    return _checked(name, provider)


_ONLY_OVER: Mapping[str, WireName] = {"reasoning_summary": "responses", "thinking_budget_tokens": "messages"}
"""Fields that one API alone has a word for."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS = (
    *("accept", "accept-encoding", "anthropic-version", "connection", "content-length", "content-type"),
    *("host", "transfer-encoding", "user-agent"),
)
_KEY_HEADERS = ("authorization", "api-key", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key")


def _checked(name: str, provider: ModelProvider) -> ModelProvider:
    problem = _provider_problem(provider)
    if problem is not None:
        raise InvalidParamsError(f"model_providers.{name}.{problem}")
    return provider


def _provider_problem(provider: ModelProvider) -> str | None:
    """What is wrong with fields that depend on each other, or hold headers. Repeats no value."""
    if provider.ca_file is not None and not os.path.isabs(provider.ca_file):
        return "ca_file must be an absolute path"
    if provider.prompt_cache_key and provider.wire == "messages":
        return "prompt_cache_key: the API 'messages' has none; what is cached is marked in requests without it"
    for field, wire in _ONLY_OVER.items():
        if getattr(provider, field) is not None and provider.wire != wire:
            return f"{field}: only the API {wire!r} has it, not {provider.wire!r}; leave it out"
    for header, value in (provider.http_headers or {}).items():
        if header.lower() in _KEY_HEADERS:
            return (
                f"http_headers: {header} is a key, which stays out of files: write the name of its variable to env_key"
            )
        if header.lower() in _OWN_HEADERS or not _HEADER_NAME.fullmatch(header):
            return f"http_headers: {header[:40]!r} cannot be set"
        if not (value.isascii() and value.isprintable()):
            return f"http_headers: the value of {header} has characters that cannot be sent"
    return None


def provider_access(provider_name: str, provider: ModelProvider, access: OutboundNetwork) -> OutboundNetwork:
    """The way to a provider: with its own certificates where its table names some, which are read now."""
    if provider.ca_file is None:
        return access
    # Imported here: few providers have certificates of their own.
    from tertulia.protocol.network.certificates import tls_context

    try:
        tls_context(provider.ca_file)
    except InvalidParamsError as error:
        raise InvalidParamsError(f"model_providers.{provider_name}.{error.message}") from None
    return replace(access, ca_file=provider.ca_file, ca_dir=None)


PROVIDERS: Mapping[str, ModelProvider] = {
    "openai": ModelProvider(base_url="https://api.openai.com/v1", wire="responses", env_key="OPENAI_API_KEY"),
    "anthropic": ModelProvider(base_url="https://api.anthropic.com", wire="messages", env_key="ANTHROPIC_API_KEY"),
    "openrouter": ModelProvider(base_url="https://openrouter.ai/api/v1", wire="chat", env_key="OPENROUTER_API_KEY"),
    "ollama": ModelProvider(base_url="http://127.0.0.1:11434/v1", wire="chat"),
    "lmstudio": ModelProvider(base_url="http://127.0.0.1:1234/v1", wire="chat"),
    "vllm": ModelProvider(base_url="http://127.0.0.1:8000/v1", wire="chat"),
    "llamacpp": ModelProvider(base_url="http://127.0.0.1:8080/v1", wire="chat"),
}
"""The providers that need no table in the settings; a table of the same name replaces the built-in one."""

LOCAL_SERVERS = ("ollama", "lmstudio", "vllm", "llamacpp")
"""The servers that `--model local` looks for, in this order."""

LOCAL_PROVIDER = "local"
"""The first half of the names of embedded models."""

BASE_URL_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
"""The environment variable that replaces the base_url of a built-in provider."""

DEFAULT_MODELS = (("OPENAI_API_KEY", "openai/gpt-5.2"), ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"))
"""The model that is used where none is named and this key is set; the first that applies."""


class ModelFacts(msgspec.Struct, frozen=True):
    """What a model can do, as far as it is known."""

    context_window: int | None = None
    images: bool = True
    reasoning: bool = False
    tools: bool = True
    """Whether it is offered tools at all."""
    price: tuple[float, float] | None = None
    """US dollars a million tokens of input and of output, where a public list price was known."""


FACTS: tuple[tuple[str, ModelFacts], ...] = (
    ("gpt-5", ModelFacts(400_000, reasoning=True)),
    ("gpt-4.1", ModelFacts(1_047_576)),
    ("gpt-4o", ModelFacts(128_000)),
    ("o3", ModelFacts(200_000, reasoning=True)),
    ("o4", ModelFacts(200_000, reasoning=True)),
    ("claude-opus-5", ModelFacts(1_000_000, reasoning=True)),
    ("claude-sonnet-5", ModelFacts(1_000_000, reasoning=True)),
    ("claude-opus-4", ModelFacts(200_000, reasoning=True)),
    ("claude-sonnet-4", ModelFacts(200_000, reasoning=True)),
    ("claude-", ModelFacts(200_000)),
    ("smollm2", ModelFacts(8_192, images=False, tools=False)),
    ("smollm2:tools", ModelFacts(8_192, images=False)),
)
"""By the longest matching beginning of the model's name. A model that is not here has its provider's window."""

PRICES: Mapping[str, tuple[float, float]] = {
    "claude-opus-4-5": (5.0, 25.0),
    "claude-sonnet-4-5": (3.0, 15.0),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4o": (2.5, 10.0),
    "gpt-4o-mini": (0.15, 0.60),
    "gpt-5": (1.25, 10.0),
    "gpt-5-mini": (0.25, 2.0),
    "gpt-5.2": (1.75, 14.0),
}
"""Public list prices by whole name: a relative's price is not a model's own."""


def model_facts(model: str) -> ModelFacts:
    """What is known of a model, by its name without the provider."""
    name = model.rsplit("/", 1)[-1].lower()
    fitting = [(prefix, facts) for prefix, facts in FACTS if name.startswith(prefix)]
    facts = max(fitting, key=lambda entry: len(entry[0]))[1] if fitting else ModelFacts()
    return replace(facts, price=PRICES.get(name))


def model_family(model: str) -> str | None:
    """`gpt-5`, `gpt-5-codex`, `claude` and the like: models that share prompts. None for a model we do not know."""
    match = _FAMILY.match(model.lower())
    return "".join(filter(None, match.groups())) if match else None


class ModelLocation(msgspec.Struct, frozen=True):
    """A model, and how to reach it."""

    provider_name: str
    model: str
    provider: ModelProvider

    @property
    def name(self) -> str:
        return f"{self.provider_name}/{self.model}"

    @property
    def context_window(self) -> int:
        """In tokens: that of the provider's table where it is not the default, else what is known of the model."""
        if self.provider.context_window != DEFAULT_WINDOW:
            return self.provider.context_window
        return model_facts(self.model).context_window or self.provider.context_window


def locate_model(model: str, configured: Mapping[str, ModelProvider], variables: Mapping[str, str]) -> ModelLocation:
    """Find the provider of `provider/model`; InvalidParams says which providers there are."""
    provider_name, slash, name = model.partition("/")
    if not slash or not name or not model.isprintable():
        hint = _model_hint(model, configured)
        raise InvalidParamsError(f"model {model[:80]!r} must be written `provider/model`{hint}")
    provider = configured.get(provider_name) or PROVIDERS.get(provider_name)
    if provider is None:
        hint = name_hint(provider_name, sorted({*PROVIDERS, *configured}))
        raise InvalidParamsError(
            f"model {model[:80]!r}: unknown provider {provider_name[:40]!r}; {hint} "
            "(others are described under [model_providers.NAME])"
        )
    if provider_name in BASE_URL_VARIABLES and provider_name not in configured:
        address = variables.get(BASE_URL_VARIABLES[provider_name])
        if address and not address.startswith(("http://", "https://")):
            variable = BASE_URL_VARIABLES[provider_name]
            raise InvalidParamsError(f"the environment variable {variable} must begin with http:// or https://")
        provider = replace(provider, base_url=address.rstrip("/")) if address else provider
    return ModelLocation(provider_name, name, provider)


MAX_FALLBACKS = 8


def fallback_models_from_wire(value: object) -> tuple[str, ...]:
    """Parse a list of models; InvalidParams says what is none. Whether they exist is asked elsewhere."""
    names = cast("list[object]", value) if isinstance(value, list | tuple) else [None]
    for name in names:
        if not isinstance(name, str) or not all(name.partition("/")) or not name.isprintable():
            raise InvalidParamsError(f"fallback_models must be a list of `provider/model`, not {value!r:.80}")
    if len(names) > MAX_FALLBACKS or len(set(names)) < len(names):
        raise InvalidParamsError(f"fallback_models may have at most {MAX_FALLBACKS} models, each of them once")
    return tuple(map(str, names))


_MAKERS = (("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"), ("claude", "anthropic"))
"""The providers of models by the beginning of the model's name."""


def _model_hint(model: str, configured: Mapping[str, ModelProvider]) -> str:
    """The end of a refusal of a model without a provider."""
    if model in ("scripted", "scripted/"):
        return "; did you mean scripted/FILE, with a script as a .yaml or .json file?"
    head, colon, tail = model.partition(":")
    if colon and head in {*PROVIDERS, *configured}:
        return f"; did you mean {head}/{tail[:80]}?"
    provider_name = next((name for start, name in _MAKERS if model.lower().startswith(start)), None)
    if provider_name is None and len(configured) == 1:
        provider_name = next(iter(configured))
    if provider_name is not None and model.isprintable():
        return f"; did you mean {provider_name}/{model[:80].strip('/')}?"
    return f", such as openai/gpt-5.2; there are the providers {', '.join(sorted({*PROVIDERS, *configured}))}"


# ── prices ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
"""US dollars a million tokens of input from the provider's cache, by whole name."""


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

    def is_known(self, model: str) -> bool:
        """Whether the price of `provider/model` is known."""
        return self.cost(model, NO_USAGE) is not None

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
