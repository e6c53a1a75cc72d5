"""Options of a provider's table: each is sent in the API's own words, or refused when the settings are read."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import ModelProvider, provider_from_wire
from tertulia.models.wire import AnswerFailure, ModelSettings
from tests.models.apis import CHAT, MESSAGES, RESPONSES, Api, body, every_api
from tests.models.mock_provider import MockProvider, Told
from tests.models.wire_contract import a_request, read
from tests.tables import each_row


@each_row(
    ("api", "options", "sent"),
    [
        (RESPONSES, {"reasoning_summary": "auto"}, {"reasoning": {"summary": "auto"}}),
        (
            RESPONSES,
            {"reasoning_summary": "detailed", "reasoning_effort": "low"},
            {"reasoning": {"effort": "low", "summary": "detailed"}},
        ),
        (MESSAGES, {"thinking_budget_tokens": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (RESPONSES, {"service_tier": "flex"}, {"service_tier": "flex"}),
        (CHAT, {"service_tier": "priority"}, {"service_tier": "priority"}),
        (MESSAGES, {"service_tier": "standard_only"}, {"service_tier": "standard_only"}),
    ],
)
def test_an_option_is_sent_in_the_words_of_the_api(api: Api, options: dict[str, Any], sent: dict[str, Any]) -> None:
    """Issue 24 (3): none is accepted and dropped, and what is not set is not sent."""
    request = a_request()
    plain, whole = (body(api.wire("https://mock.example", **some), request) for some in ({}, options))
    assert whole == {**plain, **sent}
    assert not plain.keys() & sent.keys()


@every_api
async def test_headers_and_query_go_with_every_request(api: Api) -> None:
    options: dict[str, Any] = {"http_headers": {"X-Team": "blue"}, "query_params": {"api-version": "2025 a&b"}}
    async with MockProvider(api.answer(Told(text="Yes."))) as mock:
        wire = api.wire(f"{mock.url}?tenant=7", **options)
        await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
    (seen,) = mock.seen
    assert seen.headers["x-team"] == "blue"
    assert seen.path == f"{wire.path}?tenant=7&api-version=2025+a%26b"


@each_row(
    ("wire", "options", "problem"),
    [
        ("chat", {"reasoning_summary": "auto"}, "reasoning_summary: only the API 'responses' has it, not 'chat'"),
        ("responses", {"thinking_budget_tokens": 2048}, "thinking_budget_tokens: only the API 'messages' has it"),
        ("messages", {"thinking_budget_tokens": 100}, "thinking_budget_tokens"),
        ("chat", {"service_tier": "Fast lane"}, "service_tier"),
        ("chat", {"http_headers": {"Authorization": "Bearer canary"}}, "Authorization is a key"),
        ("chat", {"http_headers": {"x-api-key": "canary"}}, "x-api-key is a key"),
        ("chat", {"http_headers": {"Host": "canary"}}, "'Host' cannot be set"),
        ("chat", {"http_headers": {"a b": "canary"}}, "'a b' cannot be set"),
        ("chat", {"http_headers": {"X-Team": "canary\r\nX-Other: 1"}}, "characters that cannot be sent"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_no_value_is_repeated(
    wire: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        provider_from_wire("mine", {"base_url": "https://mock.example", "wire": wire, **options})
    assert problem in refused.value.message
    assert "canary" not in refused.value.message


def test_a_provider_that_python_made_is_checked_too() -> None:
    made = ModelProvider(base_url="https://mock.example", wire="chat", reasoning_summary="auto")
    with pytest.raises(InvalidParamsError, match="reasoning_summary: only the API"):
        provider_from_wire("mine", made)


@each_row(
    ("settings", "problem"),
    [
        (ModelSettings(max_output_tokens=2048), "thinking_budget_tokens: 2,048 must be less than the 2,048 tokens"),
        (ModelSettings(temperature=0.5), "temperature: mock/claude thinks"),
        (ModelSettings(reasoning_effort="none"), "has no 'none'"),
    ],
)
async def test_a_budget_for_thinking_excludes_what_the_api_refuses_with_it(
    settings: ModelSettings, problem: str
) -> None:
    wire = MESSAGES.wire("https://mock.example", model="claude", thinking_budget_tokens=2048)
    wire.check_settings(ModelSettings(max_output_tokens=4096))
    with pytest.raises(InvalidParamsError) as refused:
        wire.check_settings(settings)
    assert problem in refused.value.message
    tight = MESSAGES.wire("https://mock.example", model="claude", thinking_budget_tokens=40_000)
    (failed,) = await read(tight, a_request())
    assert isinstance(failed, AnswerFailure)
