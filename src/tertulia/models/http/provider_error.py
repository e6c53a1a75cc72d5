"""The errors of requests to a provider, in texts that people can be shown, and whether a retry may help.

Reads what providers say about failures; neither sends nor waits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tertulia.models.http.retry import RetryKind, advised_pause, retry_after

_SHOWN = 300
_HIDDEN = "[key]"
_LEAST_SECRET = 8

_OVERFLOW = re.compile(
    r"context.{0,3}(length|window|size|limit)|prompt is too long|too many (input )?tokens|maximum prompt length"
    r"|token (count|limit).{0,40}exceed|reduce the length of the (messages|prompt|input)|input is too long"
    r"|request_too_large|exceed_context",
    re.IGNORECASE,
)
"""How the three APIs and the usual servers behind them say that a history does not fit."""
_PASSING = re.compile(r"server_error|overloaded|rate_limit|api_error|timeout|slow_down|unavailable|^(429|5\d\d)$")
"""Codes and types of errors inside a stream that may be temporary."""
_UNKNOWN_MODEL = frozenset({"model_not_found", "unknown_model", "model_not_available", "not_found_error"})
_NEVER_PASSES = frozenset({"insufficient_quota", "billing_not_active", "access_terminated"})


class ProviderAttemptError(Exception):
    """An attempt that failed, and whether another may succeed."""

    def __init__(
        self,
        message: str,
        *,
        retry: RetryKind | None = None,
        after: float | None = None,
        overflow: bool = False,
        key_refused: bool = False,
        another_may_help: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry: RetryKind | None = retry
        """None: the same request would fail again."""
        self.after = after
        """Seconds to wait, where the provider says so."""
        self.overflow = overflow
        self.key_refused = key_refused
        """The provider refused the key, or wants one."""
        self.another_may_help = another_may_help or retry is not None
        """Whether another model may answer the same request: not the request is wrong, nor the key."""


class ProviderAddress(msgspec.Struct, frozen=True):
    """Which provider and model a request goes to, for messages."""

    provider: str
    model: str
    host: str
    env_key: str | None


def stream_cut(place: ProviderAddress, how: str) -> ProviderAttemptError:
    """The stream broke off. An answer counts only when it is complete, so it can be requested again."""
    return ProviderAttemptError(f"{place.provider}: {how}", retry="stream")


def malformed_response(place: ProviderAddress, what: str) -> ProviderAttemptError:
    """The provider's answer does not follow its API; it would be the same again."""
    return ProviderAttemptError(
        f"{place.provider} sent {what}; is {place.host} the right base_url, and `wire` the right API?",
        another_may_help=True,
    )


def refused_request(
    place: ProviderAddress, status: int, headers: Mapping[str, str], body: bytes
) -> ProviderAttemptError:
    """An answer other than 200."""
    answer = _read(body)
    reason = f": {answer.shown}" if answer.shown else ""
    if status in (401, 403):
        return ProviderAttemptError(f"{place.provider} refused the key ({status}){reason}", key_refused=True)
    if 300 <= status < 400:
        return ProviderAttemptError(
            f"{place.provider} answered with a redirect ({status}), which is not followed, so that no key goes "
            "anywhere else; set base_url to the right address"
        )
    if status == 413 or (status != 429 and _overflows(answer)):
        return ProviderAttemptError(
            f"{place.provider}: the request is too long for {place.model} ({status}){reason}", overflow=True
        )
    if status == 404:
        message = f"{place.provider} found nothing for the model {place.model!r} at {place.host} (404){reason}"
        return ProviderAttemptError(f"{message}. Are model and base_url right?", another_may_help=True)
    passing = status >= 500 or (status in (408, 429) and answer.code not in _NEVER_PASSES)
    return ProviderAttemptError(
        f"{place.provider} answered {status}{reason}",
        retry="request" if passing else None,
        after=retry_after(headers, answer.message),
        another_may_help=status == 429 or answer.code in _UNKNOWN_MODEL,
    )


def reported_failure(place: ProviderAddress, body: bytes | bytearray) -> ProviderAttemptError:
    """A failure that the provider reports inside a stream, as JSON."""
    answer = _read(body)
    reason = answer.shown or answer.code[:_SHOWN] or "no reason was given"
    if _overflows(answer):
        return ProviderAttemptError(
            f"{place.provider}: the request is too long for {place.model}: {reason}", overflow=True
        )
    passing = _PASSING.search(answer.code) is not None and answer.code not in _NEVER_PASSES
    return ProviderAttemptError(
        f"{place.provider} gave up: {reason}",
        retry="stream" if passing else None,
        after=advised_pause(answer.message),
        another_may_help=answer.code in _UNKNOWN_MODEL or answer.code in _NEVER_PASSES,
    )


def missing_key(place: ProviderAddress, *, stored: bool) -> ProviderAttemptError:
    """There is no key. `stored`: stored keys are used, and none is for this provider."""
    way = f"; set it, or keep a key with `tertulia login {place.provider}`" if stored else ""
    return ProviderAttemptError(
        f"no key for {place.provider}: the environment variable {place.env_key} is not set{way}"
    )


def unusable_key(place: ProviderAddress, origin: str) -> ProviderAttemptError:
    """There is a key that no header can hold."""
    return ProviderAttemptError(
        f"the key for {place.provider} from {origin} cannot be used: it has characters that cannot be sent"
    )


def key_origin(place: ProviderAddress, origin: str | None) -> str:
    """A sentence that says where the key came from that a provider refused."""
    if origin is not None:
        return f"It was taken from {origin}"
    return f"None was sent: the provider {place.provider} has no env_key, and no key is kept for it"


def without_key(message: str, key: str | None) -> str:
    """The message without the key, whole or begun: some providers repeat what they were sent."""
    if not key:
        return message
    message = message.replace(key, _HIDDEN)
    if len(key) < _LEAST_SECRET:
        return message
    return re.sub(re.escape(key[:_LEAST_SECRET]) + r"[^\s\"',;)}\]]*", _HIDDEN, message)


class _ProviderMessage(msgspec.Struct, frozen=True):
    """The message and code of a provider's error."""

    message: str = ""
    code: str = ""

    @property
    def shown(self) -> str:
        """The text on one line of bounded length, without terminal control characters."""
        line = " ".join("".join(c if c.isprintable() else " " for c in self.message[: _SHOWN * 4]).split())
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _read(body: bytes | bytearray) -> _ProviderMessage:
    """The error of a JSON body in any of the usual shapes; nothing of any other body, which may be a whole page."""
    try:
        decoded: object = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _ProviderMessage()
    inner = decoded
    if isinstance(decoded, dict):
        fields = cast("dict[str, Any]", decoded)
        inner = fields.get("error") or fields.get("detail") or fields
    if isinstance(inner, str):
        return _ProviderMessage(inner)
    if not isinstance(inner, dict):
        return _ProviderMessage()
    error = cast("dict[str, Any]", inner)
    return _ProviderMessage(str(error.get("message") or ""), str(error.get("code") or error.get("type") or ""))


def _overflows(answer: _ProviderMessage) -> bool:
    return _OVERFLOW.search(f"{answer.code} {answer.message}"[:10_000]) is not None
