"""Every setting of a request, over every wire: it is sent or refused, and none is accepted and dropped."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import fields

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import ModelProvider, provider_from_wire
from tertulia.models.wire import AnswerFailure, ModelSettings
from tests.models.apis import APIS, Api
from tests.models.mock_provider import MockProvider, Seen, Told
from tests.models.wire_contract import a_request, read
from tests.tables import each_row

Looks = Callable[[Seen], object]
REFUSED: Any = None
NOT_SENT = {
    "base_url", "wire", "env_key", "context_window", "ca_file", "request_max_retries", "stream_max_retries",
    "stream_idle_timeout_ms", "stream_progress_timeout_ms", "max_answer_characters", "max_argument_characters",
}  # fmt: skip
"""Fields of a provider's table that say how it is asked, not what: each has tests of its own."""


def member(*path: str) -> Looks:
    """What stands at this place of the body."""

    def look(seen: Seen) -> object:
        value = seen.json
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return look


SENT: dict[str, tuple[object, object, Looks | None, Looks | None, Looks | None]] = {
    "reasoning_effort": (
        "low", "low", member("reasoning", "effort"), member("reasoning_effort"), member("output_config", "effort"),
    ),
    "temperature": (0.5, 0.5, member("temperature"), member("temperature"), member("temperature")),
    "max_output_tokens": (
        500, 500, member("max_output_tokens"), member("max_tokens"), member("max_tokens"),
    ),
    "reasoning_summary": ("auto", "auto", member("reasoning", "summary"), REFUSED, REFUSED),
    "thinking_budget_tokens": (2048, 2048, REFUSED, REFUSED, member("thinking", "budget_tokens")),
    "service_tier": ("flex", "flex", member("service_tier"), member("service_tier"), member("service_tier")),
    "prompt_cache_key": (True, True, *(2 * (lambda seen: "prompt_cache_key" in seen.json,)), REFUSED),
    "http_headers": ({"X-Team": "blue"}, "blue", *(3 * (lambda seen: seen.headers.get("x-team"),))),
    "query_params": ({"api-version": "7"}, True, *(3 * (lambda seen: seen.path.endswith("?api-version=7"),))),
}  # fmt: skip
"""By the name of the setting: a value, what is found of it, and where over `responses`, `chat` and `messages`."""


def test_the_table_has_every_setting_that_there_is() -> None:
    known = {field.name for field in fields(ModelProvider)} | {field.name for field in fields(ModelSettings)}
    assert known - NOT_SENT == SENT.keys(), "a new setting needs a row here, for each of the three wires"


ROWS = [
    (name, api, value, found, look)
    for name, (value, found, *looks) in SENT.items()
    for api, look in zip(APIS, looks, strict=True)
]


@each_row(("name", "api", "value", "found", "look"), ROWS, ids=[f"{name} {api.name}" for name, api, *_ in ROWS])
async def test_it_is_sent_or_refused(name: str, api: Api, value: Any, found: object, look: Looks | None) -> None:
    """Issue 24 (3): none of these may be accepted and dropped."""
    table = {"base_url": "https://mock.example", "wire": api.name, name: value}
    if look is None:
        with pytest.raises(InvalidParamsError, match=name):
            provider_from_wire("mock", table)
        return
    provider_from_wire("mock", table)
    async with MockProvider(api.answer(Told(text="Yes."))) as mock:
        bare, set_up = api.wire(mock.url, model="mystery"), api.wire(mock.url, model="mystery", **{name: value})
        for wire in (bare, set_up):
            pieces = await read(wire, a_request(dialect=wire.dialect))
            assert not isinstance(pieces[-1], AnswerFailure), pieces
            await wire.close()
    plain, whole = mock.seen
    assert look(whole) == found
    assert look(plain) != found, "it would be there without the setting"


@each_row("api", APIS, ids=[api.name for api in APIS])
async def test_what_can_be_cached_is_marked_where_the_api_has_marks(api: Api) -> None:
    """Messages alone has marks: on the instructions and on the newest message. The others cache by themselves."""
    async with MockProvider(api.answer(Told(text="Yes."))) as mock:
        wire = api.wire(mock.url, model="mystery")
        await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
    (seen,) = mock.seen
    assert json.dumps(seen.json).count('"cache_control"') == (2 if api.name == "messages" else 0)
