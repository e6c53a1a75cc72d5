"""What failures of providers mean: whether to ask again, when, and what may be shown of them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tertulia.models.http.provider_error import (
    ProviderAddress,
    key_origin,
    malformed_response,
    missing_key,
    refused_request,
    reported_failure,
    unusable_key,
    without_key,
)
from tests.tables import each_row

PLACE = ProviderAddress("mock", "gpt-5.2", "mock.example", "MOCK_API_KEY")
KEYS = [
    "sk-proj-Abc123_def-456ghi789jkl012mno345",
    "sk-ant-api03-Zz9_yy8-xx7ww6vv5uu4tt3ss2rr1",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "gsk_abcdefghijklmnopqrstuvwxyz0123456789",
    "xai-abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "0123456789abcdef0123456789abcdef",
    "pa$$w0rd+with(special)[chars]*",
    "short",
]
"""HARDENING E6: twelve shapes."""


def body(message: str, **more: object) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


@each_row(
    ("status", "retry"),
    [(400, None), (401, None), (403, None), (404, None), (422, None), (408, "request"), (429, "request")]
    + [(status, "request") for status in (500, 502, 503, 504, 529)],
)
def test_what_may_pass_is_asked_again(status: int, retry: str | None) -> None:
    error = refused_request(PLACE, status, {}, body("no"))
    assert (error.retry, error.overflow) == (retry, False)
    assert "mock" in error.message
    assert str(status) in error.message
    assert "no" in error.message


def test_a_used_up_quota_does_not_pass() -> None:
    assert refused_request(PLACE, 429, {}, body("You exceeded your quota", code="insufficient_quota")).retry is None


@each_row("status", [401, 403])
def test_a_refused_key_is_marked_so_that_its_origin_can_be_named(status: int) -> None:
    assert refused_request(PLACE, status, {}, b"").key_refused
    assert not refused_request(PLACE, 500, {}, b"").key_refused
    assert key_origin(PLACE, "the environment variable X") == "It was taken from the environment variable X"
    assert "no env_key" in key_origin(ProviderAddress("mock", "gpt-5.2", "mock.example", None), None)


def test_what_is_not_found_is_named() -> None:
    message = refused_request(PLACE, 404, {}, body("The model does not exist")).message
    assert "'gpt-5.2'" in message
    assert "mock.example" in message
    assert "The model does not exist" in message


def test_a_redirect_is_explained() -> None:
    error = refused_request(PLACE, 302, {"location": "https://evil.example/?key=1"}, b"")
    assert "base_url" in error.message
    assert "evil" not in error.message
    assert error.retry is None


OVERFLOWS = [
    (400, "context_length_exceeded", "Your input exceeds the context window of this model."),
    (400, None, "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens"),
    (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
    (413, "request_too_large", "Request exceeds the maximum size"),
    (400, "exceed_context_size_error", "the request exceeds the available context size, try increasing it"),
    (500, None, "the request exceeds the available context size. try increasing the context size"),
    (400, None, "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."),
    (400, None, "Please reduce the length of the messages or completion."),
    (400, None, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    (400, None, "tokens to keep from the initial prompt is greater than the context length"),
    (400, None, "Input is too long for requested model."),
]


@each_row(("status", "code", "message"), OVERFLOWS)
def test_the_usual_ways_of_saying_that_a_history_is_too_long(status: int, code: str | None, message: str) -> None:
    error = refused_request(PLACE, status, {}, body(message, code=code))
    assert error.overflow
    assert error.retry is None
    assert reported_failure(PLACE, body(message, code=code)).overflow


@each_row(
    "message",
    ["Rate limit reached for gpt-5.2: Limit 30000, Requested 40000", "Invalid value", "Unknown parameter: 'store'"],
)
def test_other_refusals_are_no_overflow(message: str) -> None:
    assert not refused_request(PLACE, 400, {}, body(message)).overflow


def test_too_many_tokens_a_minute_are_no_overflow() -> None:
    assert not refused_request(PLACE, 429, {}, body("too many tokens: token limit exceeded")).overflow


@each_row(
    ("headers", "message", "after"),
    [
        ({}, "no", None),
        ({"retry-after": "7"}, "no", 7.0),
        ({"retry-after": "0"}, "no", 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, "no", 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:09 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "no", 9.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:28:09 GMT"}, "no", 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:09 GMT"}, "no", None),
        ({"retry-after": "soon"}, "no", None),
        ({"retry-after": "-5"}, "no", None),
        ({"retry-after-ms": "soon"}, "no", None),
        ({}, "Rate limit reached. Please try again in 11.054s.", 11.054),
        ({}, "Please try again in 28ms", 0.028),
    ],
)
def test_advice_on_when_to_come_back(headers: dict[str, str], message: str, after: float | None) -> None:
    assert refused_request(PLACE, 429, headers, body(message)).after == after


@each_row(
    ("code", "retry"),
    [
        ("server_error", "stream"),
        ("rate_limit_exceeded", "stream"),
        ("overloaded_error", "stream"),
        ("api_error", "stream"),
        ("timeout_error", "stream"),
        ("502", "stream"),
        (502, "stream"),
        ("invalid_prompt", None),
        ("invalid_request_error", None),
        ("insufficient_quota", None),
        ("400", None),
        ("", None),
    ],
)
def test_errors_in_the_middle_of_a_stream(code: str | int, retry: str | None) -> None:
    assert reported_failure(PLACE, body("no", code=code)).retry == retry
    assert reported_failure(PLACE, body("no", type=code)).retry == retry


@each_row(
    ("expected", "shown"),
    [
        (b'{"error": {"message": "one"}}', "one"),
        (b'{"error": "two"}', "two"),
        (b'{"detail": "three"}', "three"),
        (b'{"message": "four"}', "four"),
        (b'{"type": "error", "error": {"type": "x", "message": "five"}}', "five"),
        (b'"six"', "six"),
    ],
)
def test_errors_come_in_many_forms(expected: bytes, shown: str) -> None:
    assert refused_request(PLACE, 400, {}, expected).message.endswith(f": {shown}")


@each_row(
    "expected",
    [
        b"",
        b"<html><body>canary</body></html>",
        b"[1, 2]",
        b"null",
        b'{"error": ["canary"]}',
        b'{"detail": [{"msg": "canary"}]}',
        b"[" * 100_000,
        b'{"error": {"message": "\xff canary"}}',
        b'{"error": {"message": "\\ud800 canary"}}',
        b"9" * 10_000,
    ],
)
def test_of_any_other_body_nothing_is_shown(expected: bytes) -> None:
    """HARDENING D9."""
    assert refused_request(PLACE, 400, {}, expected).message == "mock answered 400"
    assert reported_failure(PLACE, expected).message == "mock gave up: no reason was given"


def test_what_is_shown_is_one_short_line_that_no_terminal_obeys() -> None:
    message = refused_request(PLACE, 400, {}, body("a\n\x1b[31mb\u202ec\u0007 " + "x" * 10_000)).message
    assert message.startswith("mock answered 400: a [31mb c x")
    assert message.isprintable()
    assert len(message) < 400


@given(st.binary(max_size=200))
def test_no_body_breaks_it(expected: bytes) -> None:
    for status in (400, 404, 429, 500):
        assert refused_request(PLACE, status, {}, expected).message.isprintable()
    assert reported_failure(PLACE, expected).message.isprintable()


@each_row("key", KEYS)
@each_row("form", ["{}", "Incorrect API key provided: {}.", "Bearer {}", '"{}"', "({})", "{},{}", "?key={}&x=1"])
def test_a_key_that_is_repeated_is_hidden(key: str, form: str) -> None:
    """HARDENING E6."""
    assert len(KEYS) == 12
    message = without_key(f"before {form.format(key, key)} after", key)
    assert key not in message
    assert "[key]" in message
    assert message.startswith("before ")
    assert message.endswith(" after")


@each_row("key", KEYS[:10])
def test_the_beginning_of_a_key_is_hidden_too(key: str) -> None:
    assert key[:8] not in without_key(f"Incorrect API key provided: {key[:12]}***{key[-4:]}", key)


@each_row("mark", [",", ";", "'", '"', ")", "}", "]"])
def test_a_key_with_a_mark_in_it_is_hidden_to_its_end(mark: str) -> None:
    key = f"sk-01234567{mark}89abcdef"
    assert without_key(f"Incorrect API key provided: {key}.", key) == "Incorrect API key provided: [key]."


def test_without_a_key_nothing_is_hidden() -> None:
    assert without_key("as it is", None) == "as it is"
    assert without_key("as it is", "") == "as it is"


def test_missing_and_broken_keys_are_named_and_not_shown() -> None:
    assert "MOCK_API_KEY" in missing_key(PLACE, stored=False).message
    assert "tertulia login" not in missing_key(PLACE, stored=False).message
    assert "`tertulia login mock`" in missing_key(PLACE, stored=True).message
    assert "the environment variable X" in unusable_key(PLACE, "the environment variable X").message
    assert missing_key(PLACE, stored=True).retry is None


def test_what_is_not_the_api_points_at_the_address() -> None:
    assert "mock.example" in malformed_response(PLACE, "a page").message
