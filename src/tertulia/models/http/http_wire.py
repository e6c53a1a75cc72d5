"""What the three HTTP wires share: key, request, retries. Each API spells its own body and decodes its own answers."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.models.catalog import ModelProvider, model_facts, model_family, provider_access
from tertulia.models.http.encoding import HttpDialect, encode, json_member
from tertulia.models.http.provider_error import (
    ProviderAddress,
    ProviderAttemptError,
    key_origin,
    missing_key,
    unusable_key,
    without_key,
)
from tertulia.models.http.retry import MAX_WAITING_S, RetryBudget
from tertulia.models.http.stream_decoder import AnswerLimits, StreamDecoder
from tertulia.models.wire import (
    AnswerFailure,
    AnswerPiece,
    AnswerWarning,
    ModelRequest,
    ModelSettings,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
)
from tertulia.protocol.conversation_fields import ReasoningEffort
from tertulia.protocol.network.access import DIRECT, OutboundNetwork
from tertulia.version import __version__

if TYPE_CHECKING:
    from tertulia.models.http.connection import ProviderConnection
    from tertulia.models.provider_keys import ProviderKey, ProviderKeys

PIECE_CHARACTERS = 64 * 1024
"""A longer piece of an answer is given in pieces of this length, so that no step that handles one takes long."""

_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
"""Azure refuses the cache key for models that are not OpenAI's."""

Sleeper = Callable[[float], Awaitable[object]]


class HttpWire(ABC):
    """A Wire to one model of one provider. Opens nothing, and imports nothing heavy, before its first request."""

    path: str
    """What follows the provider's base_url."""
    dialect_type: type[HttpDialect]
    efforts: tuple[ReasoningEffort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh")
    """The words that this API has for `reasoning_effort`."""
    max_temperature: float = 2.0
    """The highest temperature that this API takes."""

    def __init__(
        self,
        provider_name: str,
        model: str,
        provider: ModelProvider,
        keys: ProviderKeys,
        *,
        sleep: Sleeper = asyncio.sleep,
        access: OutboundNetwork = DIRECT,
    ) -> None:
        """`sleep`: how pauses between attempts are waited for; `access`: the way to it.

        InvalidParams for a base_url that is no address, and for certificates that cannot be read.
        """
        self.provider_name = provider_name
        self.model = model
        self.provider = provider
        self._keys = keys
        self._sleep = sleep
        self._url = _api_url(provider_name, provider, self.path)
        self.limits = AnswerLimits(provider.max_answer_characters, provider.max_argument_characters)
        self.place = ProviderAddress(provider_name, model, _host(self._url), provider.env_key)
        self._access = provider_access(provider_name, provider, access)
        self._line: ProviderConnection | None = None
        self.name = f"{provider_name}/{model}"
        self.family = model_family(model) or provider_name
        """`gpt-5`, `gpt-5-codex`, `claude` and the like; the provider's name for any other model."""
        self.dialect = self.dialect_type(self.place, self._url)
        self.is_azure = f".{self.place.host.partition(':')[0]}".endswith(_AZURE_HOSTS)
        """Whether Azure serves it, which differs from OpenAI in a few things."""
        self.sends_cache_key = _takes_cache_key(self)
        """Whether requests have a `prompt_cache_key`, where the API knows one."""
        self._allowed: ModelSettings | None = None
        """The settings that were checked last and are taken."""

    @property
    def context_window(self) -> int:
        """The context window that is configured for the provider."""
        return self.provider.context_window

    @abstractmethod
    def body_of(self, request: ModelRequest) -> list[bytes]:
        """The request as it is sent, in parts. The history in it is as it was encoded, once."""

    def settings_of(self, settings: ModelSettings) -> ModelSettings:
        """The settings of the request, completed by those of the provider's table."""
        usual = self.provider
        return ModelSettings(
            usual.reasoning_effort if settings.reasoning_effort is None else settings.reasoning_effort,
            usual.temperature if settings.temperature is None else settings.temperature,
            usual.max_output_tokens if settings.max_output_tokens is None else settings.max_output_tokens,
        )

    def check_settings(self, settings: ModelSettings) -> None:
        """Refuse what this API, or a model that is known, does not take; see `ChecksSettings`."""
        if settings == self._allowed:
            return
        refusal = self.refusal_of(self.settings_of(settings))
        if refusal is not None:
            raise InvalidParamsError(refusal)
        self._allowed = settings

    def refusal_of(self, settings: ModelSettings) -> str | None:
        """Why this API or model cannot be asked with these settings; None where it can."""
        return settings_refusal(self, settings)

    def option_members(self) -> list[bytes]:
        """Members of every request that the provider's table asks for: the tier, where it names one."""
        tier = self.provider.service_tier
        return [] if tier is None else [json_member("service_tier", encode(tier))]

    def headers_for(self, key: str | None) -> dict[str, str]:
        """The headers that this API wants besides the usual ones: the key as a bearer token, by default."""
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    @abstractmethod
    def reader(self) -> StreamDecoder:
        """A new decoder for one answer."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """Send the request, and send it again where that may help; see `Wire` for the contract."""
        try:
            self.check_settings(request.settings)
            key = await self._keys.find(self.provider_name, self.provider.env_key)
        except (StorageError, InvalidParamsError) as error:
            yield AnswerFailure(error.message)
            return
        patience = RetryBudget(self.provider)
        body = self.body_of(request)
        while True:
            reader = self.reader()
            try:
                headers = self._headers(key)
                async with self._connected().post(body, headers) as events:
                    characters = 0
                    while not reader.whole and (
                        ready := await events.next_events(progress=reader.characters > characters)
                    ):
                        characters = reader.characters
                        ready.reverse()
                        for piece in _read_pieces(reader, ready, is_json=events.is_json):
                            if piece is None:
                                await asyncio.sleep(0)
                            else:
                                yield piece
                    last = _last_pieces(reader)
                    await events.drain()
            except ProviderAttemptError as error:
                pause = patience.pause(error.retry, error.after)
                if pause is None:
                    yield self._failed(error, patience.made, key)
                    return
                yield RetryNotice(without_key(f"{error.message}; trying again in {pause:.1f} s", key and key.value))
                await self._sleep(pause)
            else:
                for piece in last:
                    yield piece
                return

    async def close(self) -> None:
        """Close all connections. A later request opens new ones."""
        if self._line is not None:
            await self._line.close()

    def _connected(self) -> ProviderConnection:
        if self._line is None:
            # Here and not above: most commands ask no model.
            from tertulia.models.http.connection import ProviderConnection

            provider = self.provider
            patience = (provider.stream_idle_timeout_ms / 1000, provider.stream_progress_timeout_ms / 1000)
            self._line = ProviderConnection(self._url, self.place, *patience, self._access)
        return self._line

    def _headers(self, key: ProviderKey | None) -> dict[str, str]:
        value = key and key.value
        if value is None and self.provider.env_key is not None:
            raise missing_key(self.place, stored=self._keys.count_stored)
        if key is not None and not is_sendable(key.value):
            raise unusable_key(self.place, key.origin)
        return {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": f"tertulia/{__version__}",
            **(self.provider.http_headers or {}),
            **self.headers_for(value),
        }

    def _failed(self, error: ProviderAttemptError, retries: int, key: ProviderKey | None) -> AnswerFailure:
        message = error.message
        if error.key_refused:
            message += f". {key_origin(self.place, key and key.origin)}"
        if retries:
            message += f" (after {retries} {'retry' if retries == 1 else 'retries'})"
        if error.after is not None and error.after > MAX_WAITING_S:
            message += f" (it asks to wait {error.after:.0f} s)"
        shown = without_key(message, key and key.value)
        return AnswerFailure(shown, overflow=error.overflow, another_may_help=error.another_may_help)


def is_sendable(key: str) -> bool:
    """Whether a header can hold a key."""
    return key.isascii() and key.isprintable() and " " not in key


def _read_pieces(reader: StreamDecoder, events: list[bytearray], *, is_json: bool) -> Iterator[AnswerPiece | None]:
    """The pieces of some events, of which the first one is last in the list; None where other tasks have their turn.

    A long event is decoded in a step of its own, and given in short pieces. Nothing of an event is held when its pieces
    are given: the caller makes its own copies.
    """
    take = reader.take_whole if is_json else reader.take
    while events and not reader.whole:
        if len(events[-1]) <= PIECE_CHARACTERS:
            yield from take(events.pop())
            continue
        for piece in [*take(events.pop())]:
            yield None
            if not isinstance(piece, TextDelta | ReasoningDelta):
                yield piece
                continue
            for start in range(0, len(piece.text), PIECE_CHARACTERS):
                yield replace(piece, text=piece.text[start : start + PIECE_CHARACTERS])
                yield None


def _last_pieces(reader: StreamDecoder) -> list[AnswerPiece]:
    """What is left to say of an answer that is over."""
    pieces = [*reader.end()]
    return [*map(AnswerWarning, reader.warnings), *pieces] if reader.warnings else pieces


def _api_url(provider_name: str, provider: ModelProvider, path: str) -> str:
    """The address of the API; a query, as some gateways want one, stays behind it."""
    try:
        base = urlsplit(provider.base_url)
        if base.scheme not in ("http", "https") or not base.hostname or base.port == 0:
            raise ValueError
    except ValueError:
        raise InvalidParamsError(f"model_providers.{provider_name}.base_url is not an address") from None
    before = base.path.rstrip("/")
    if path.startswith("/v1/"):
        before = before.removesuffix("/v1")
    query = "&".join(filter(None, (base.query, urlencode(provider.query_params or {}))))
    return urlunsplit(base._replace(path=before + path, query=query, fragment=""))


def _host(url: str) -> str:
    """The host, with its port where the address names one."""
    address = urlsplit(url)
    try:
        port = address.port
    except ValueError:
        port = None
    return f"{address.hostname}:{port}" if port is not None else address.hostname or ""


def _takes_cache_key(wire: HttpWire) -> bool:
    """Whether the settings say so, or else the server is known to take it: OpenAI, and on Azure models of OpenAI."""
    if wire.provider.prompt_cache_key is not None:
        return wire.provider.prompt_cache_key
    host, family = f".{wire.place.host.partition(':')[0]}", model_family(wire.model) or ""
    return host.endswith(".openai.com") or (wire.is_azure and family.startswith(("gpt-", "o")))


def settings_refusal(wire: HttpWire, settings: ModelSettings) -> str | None:
    """Why this model cannot be asked so; None where it can, or where that is not known."""
    facts, effort, temperature = model_facts(wire.model), settings.reasoning_effort, settings.temperature
    if effort is not None:
        if facts.context_window is not None and not facts.reasoning:
            return f"reasoning_effort: {wire.name} does not reason, so it has none; leave it out"
        if effort not in wire.efforts:
            return f"reasoning_effort: the API of {wire.name} has no {effort!r}, only {', '.join(wire.efforts)}"
    if temperature is not None:
        if temperature > wire.max_temperature:
            return f"temperature: the API of {wire.name} takes at most {wire.max_temperature:g}, not {temperature:g}"
        if effort != "none" and facts.reasoning and (model_family(wire.model) or "").startswith(("gpt-", "o")):
            return f"temperature: {wire.name} is a reasoning model and takes none; use reasoning_effort"
    if settings.max_output_tokens is not None and settings.max_output_tokens > wire.context_window:
        most, window = settings.max_output_tokens, wire.context_window
        return f"max_output_tokens: {most:,} is more than the window of {wire.name}, {window:,} tokens"
    return None
