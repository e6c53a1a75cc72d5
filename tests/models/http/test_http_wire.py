"""What all HTTP wires do alike: keys, headers, asking again, and the bytes of a history that grows."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.models.catalog import ModelProvider
from tertulia.models.http.messages import MessagesWire
from tertulia.models.http.responses import ResponsesWire
from tertulia.models.http.retry import MAX_WAITING_S, RetryBudget
from tertulia.models.provider_keys import ProviderKeys
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerPiece, ModelRequest, RetryNotice, TextDelta
from tertulia.protocol.ids import CallId, new_conversation_id, new_item_id
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, ToolCall, ToolOutput, UserMessage, text_parts
from tests.models.apis import APIS, CHAT, ENV_KEY, KEY, MESSAGES, RESPONSES, Api, every_api
from tests.models.http.test_provider_error import KEYS
from tests.models.mock_provider import MockProvider, Reply, Told, in_turn, refused, streamed
from tests.models.wire_contract import a_request, check_answer, read, until
from tests.tables import each_row

PLAIN = Told(text="One two three.")
BUSY = refused("503 Service Unavailable", {"error": {"message": "busy"}})


class Naps:
    """Waits for nothing and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def asked(api: Api, *answers: Reply, **settings: Any) -> tuple[list[AnswerPiece], MockProvider]:
    async with MockProvider(in_turn(*answers)) as mock:
        wire = api.wire(mock.url, **settings)
        pieces = await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
        check_answer(pieces)
        return pieces, mock


def failure(pieces: list[AnswerPiece]) -> str:
    assert isinstance(pieces[-1], AnswerFailure)
    return pieces[-1].message


# ---- keys


@every_api
@pytest.mark.parametrize("key", [None, "", "  \n"])
async def test_without_a_key_nobody_is_asked(api: Api, key: str | None) -> None:
    pieces, mock = await asked(api, api.answer(PLAIN), key=key)
    assert pieces == [AnswerFailure(f"no key for mock: the environment variable {ENV_KEY} is not set")]
    assert mock.connections == 0


@every_api
@each_row("key", ["sk-1\r\nX-Evil: 1", "sk-ключ", "sk-\x00", "sk-one two"])
async def test_a_key_that_no_header_can_hold_is_not_sent(api: Api, key: str) -> None:
    pieces, mock = await asked(api, api.answer(PLAIN), key=key)
    assert ENV_KEY in failure(pieces)
    assert key not in failure(pieces)
    assert mock.connections == 0


@every_api
async def test_a_key_is_sent_without_the_line_break_behind_it(api: Api) -> None:
    _, mock = await asked(api, api.answer(PLAIN), key=f"{KEY}\n")
    assert mock.seen[0].headers["authorization"] == f"Bearer {KEY}"


@every_api
async def test_a_provider_without_a_key_is_asked_without(api: Api) -> None:
    pieces, mock = await asked(api, api.answer(PLAIN), env_key=None)
    assert isinstance(pieces[-1], AnswerEnd)
    assert not {"authorization", "x-api-key"} & set(mock.seen[0].headers)


async def test_the_key_is_looked_up_at_each_request() -> None:
    keys = {"K": "sk-first-000000"}
    async with MockProvider(RESPONSES.answer(PLAIN)) as mock:
        wire = ResponsesWire(
            "mock", "m", ModelProvider(base_url=mock.url, wire="responses", env_key="K"), ProviderKeys(keys)
        )
        await read(wire, a_request())
        keys["K"] = "sk-second-00000"
        await read(wire, a_request())
        await wire.close()
    assert [seen.headers["authorization"] for seen in mock.seen] == ["Bearer sk-first-000000", "Bearer sk-second-00000"]


@every_api
@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_a_refused_key_is_named_and_not_shown(api: Api, status: str) -> None:
    echo = refused(status, {"error": {"message": f"Incorrect API key provided: {KEY}. Bearer {KEY}"}})
    pieces, mock = await asked(api, echo)
    assert ENV_KEY in failure(pieces)
    assert KEY not in failure(pieces)
    assert len(mock.seen) == 1


@every_api
@pytest.mark.parametrize("key", KEYS)
async def test_a_key_is_in_no_event_and_no_log(api: Api, key: str, caplog: pytest.LogCaptureFixture) -> None:
    """HARDENING E6: a provider that repeats it in every place it can."""
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"key={key} Bearer {key}", "code": key, "type": key}, "detail": key, "key": key}
    replies = [
        refused("500 Oops", echo, ("X-Key", key)),
        refused("401 No", echo),
        refused(f"400 {key}", echo),
        refused("302 Found", echo, ("Location", f"http://127.0.0.1:1/{key}")),
        Reply((key.encode(),), headers=(("Content-Type", f"text/{key}"),)),
        streamed(b"data: " + key.encode() + b"\n\n"),
        streamed(b'data: {"type":"error","error":{"message":"%b","type":"x"}}\n\n' % key.encode()),
    ]
    for reply in replies:
        pieces, _ = await asked(api, reply, key=key)
        assert isinstance(pieces[-1], AnswerFailure)
        assert key.encode() not in msgspec.json.encode(pieces)
        assert key not in repr(pieces)
    assert key not in caplog.text


def test_a_wire_shows_no_key() -> None:
    wire = RESPONSES.wire("http://user:canary@mock.example")
    assert KEY not in repr(wire)
    assert KEY not in str(vars(wire))
    assert wire.place.host == "mock.example"


# ---- asking again


@every_api
@each_row("status", ["429 Too Many", "500 Oops", "502 Bad Gateway", "503 Busy", "529 Overloaded"])
async def test_a_refusal_that_may_pass_is_asked_again(api: Api, status: str) -> None:
    pieces, mock = await asked(api, refused(status, {"error": {"message": "busy"}}), api.answer(PLAIN))
    assert isinstance(pieces[-1], AnswerEnd)
    assert [piece for piece in pieces if isinstance(piece, RetryNotice)] == [pieces[0]]
    assert isinstance(pieces[0], RetryNotice)
    assert "busy" in pieces[0].message
    assert "trying again" in pieces[0].message
    assert mock.seen[0].body == mock.seen[1].body


@every_api
async def test_a_cut_stream_is_asked_for_again(api: Api) -> None:
    pieces, mock = await asked(api, streamed(*api.begun(PLAIN, "One"), "cut"), api.answer(PLAIN))
    assert isinstance(pieces[-1], AnswerEnd)
    kinds = [type(piece) for piece in pieces]
    assert kinds.index(TextDelta) < kinds.index(RetryNotice)
    assert len(mock.seen) == 2


@every_api
async def test_patience_ends_after_four_times(api: Api) -> None:
    naps = Naps()
    pieces, mock = await asked(api, BUSY, sleep=naps)
    assert failure(pieces) == "mock answered 503: busy (after 4 retries)"
    assert len(mock.seen) == 5
    assert len(naps.seconds) == 4
    assert naps.seconds == sorted(naps.seconds)
    assert 0.4 <= naps.seconds[0] <= 0.6
    assert sum(naps.seconds) < MAX_WAITING_S


@every_api
@pytest.mark.parametrize("settings", [{"request_max_retries": 1}, {"request_max_retries": 0}])
async def test_how_often_is_set_for_each_provider(api: Api, settings: dict[str, int]) -> None:
    pieces, mock = await asked(api, BUSY, **settings)
    assert isinstance(pieces[-1], AnswerFailure)
    assert len(mock.seen) == 1 + settings["request_max_retries"]


async def test_refusals_and_cuts_are_counted_together() -> None:
    cut = streamed(*RESPONSES.begun(PLAIN, "One"), "cut")
    pieces, mock = await asked(RESPONSES, BUSY, cut, BUSY, cut, BUSY, cut)
    assert isinstance(pieces[-1], AnswerFailure)
    assert len(mock.seen) == 5


async def test_the_provider_says_when_to_come_back() -> None:
    naps = Naps()
    busy = refused("429 Too Many", {"error": {"message": "slow"}}, ("Retry-After", "7"))
    pieces, _ = await asked(RESPONSES, busy, RESPONSES.answer(PLAIN), sleep=naps)
    assert isinstance(pieces[-1], AnswerEnd)
    assert naps.seconds == [7.0]


async def test_thirty_seconds_of_waiting_are_enough() -> None:
    naps = Naps()
    busy = refused("429 Too Many", {"error": {"message": "slow"}}, ("Retry-After", "12"))
    pieces, mock = await asked(RESPONSES, busy, sleep=naps)
    assert isinstance(pieces[-1], AnswerFailure)
    assert naps.seconds == [12.0, 12.0]
    assert len(mock.seen) == 3


async def test_a_provider_that_wants_to_be_left_alone_for_long_is() -> None:
    busy = refused("429 Too Many", {"error": {"message": "slow"}}, ("Retry-After", "3600"))
    pieces, mock = await asked(RESPONSES, busy)
    assert failure(pieces) == "mock answered 429: slow (it asks to wait 3600 s)"
    assert len(mock.seen) == 1


async def test_waiting_can_be_cancelled() -> None:
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await asyncio.Event().wait()

    async with MockProvider(BUSY) as mock:
        wire = RESPONSES.wire(mock.url, sleep=sleep)
        stream = wire.stream(a_request())
        assert isinstance(await anext(stream), RetryNotice)
        waiting = asyncio.ensure_future(anext(stream))
        await until(lambda: len(naps) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stream.aclose()
        await wire.close()
        assert len(mock.seen) == 1


async def test_patience_by_itself() -> None:
    patience = RetryBudget(ModelProvider(base_url="http://x", wire="chat", request_max_retries=1, stream_max_retries=2))
    assert patience.pause(None) is None
    assert patience.pause("request", 0.0) == 0.0
    assert patience.pause("request", 0.0) is None
    assert patience.pause("stream", 29.0) == 29.0
    assert patience.pause("stream", 0.0) is None
    assert patience.made == 2


# ---- what it is


@each_row(
    ("model", "family"),
    [
        ("gpt-5.2", "gpt-5"),
        ("gpt-5-mini", "gpt-5"),
        ("gpt-5-codex", "gpt-5-codex"),
        ("gpt-5.3-codex-max", "gpt-5-codex"),
        ("openai/gpt-4.1", "gpt-4"),
        ("o4-mini", "o4"),
        ("claude-sonnet-4-5", "claude"),
        ("anthropic/claude-opus-5", "claude"),
        ("qwen3-coder:30b", "mock"),
        ("llama", "mock"),
    ],
)
def test_models_of_one_family_are_known_by_their_name(model: str, family: str) -> None:
    assert CHAT.wire("http://mock.example", model=model).family == family


@each_row(
    ("base", "paths"),
    [
        ("http://mock.example", ("/responses", "/chat/completions", "/v1/messages")),
        ("http://mock.example/", ("/responses", "/chat/completions", "/v1/messages")),
        ("http://mock.example/v1", ("/v1/responses", "/v1/chat/completions", "/v1/messages")),
        ("http://mock.example/v1/", ("/v1/responses", "/v1/chat/completions", "/v1/messages")),
        ("http://mock.example/a/v1", ("/a/v1/responses", "/a/v1/chat/completions", "/a/v1/messages")),
        ("http://mock.example/a?b=c", ("/a/responses?b=c", "/a/chat/completions?b=c", "/a/v1/messages?b=c")),
    ],
)
def test_the_address_is_what_precedes_the_path(base: str, paths: tuple[str, ...]) -> None:
    assert [api.wire(base)._url for api in APIS] == [f"http://mock.example{path}" for path in paths]


@each_row("base", ["", "mock.example", "ftp://mock.example", "http://", "http://[::1", "http://a:99999", "http://a:0"])
def test_what_is_no_address_is_refused_when_the_wire_is_made(base: str) -> None:
    with pytest.raises(InvalidParamsError, match=r"model_providers\.mock\.base_url"):
        MESSAGES.wire(base)


async def test_every_request_says_who_asks_and_what_for() -> None:
    _, mock = await asked(RESPONSES, RESPONSES.answer(PLAIN))
    headers = mock.seen[0].headers
    assert headers["user-agent"].startswith("tertulia/")
    assert headers["accept"] == "text/event-stream"
    assert headers["accept-encoding"] == "identity"


def test_nothing_heavy_is_imported_before_the_first_request() -> None:
    code = """
import sys
from tertulia.models.catalog import ModelProvider
from tertulia.models.http.chat import ChatWire
from tertulia.models.http.messages import MessagesWire
from tertulia.models.http.responses import ResponsesWire
provider = ModelProvider(base_url="http://mock.example", wire="chat")
for kind in (ChatWire, MessagesWire, ResponsesWire):
    kind("mock", "m", provider, lambda _: None).dialect.encode_items(())
sys.exit(bool({"aiohttp", "openai", "anthropic"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- a history that grows


def turn(number: int, dialect: str) -> list[list[Item]]:
    """What a turn adds, as a conversation adds it: the question, the answer, the outputs, the last word."""
    one, other = CallId(f"call_{number}a"), CallId(f"call_{number}b")
    return [
        [UserMessage(new_item_id(), text_parts(f"Question {number}"))],
        [
            Reasoning(new_item_id(), "Hm.", dialect, "signature:sealed"),
            AssistantMessage(new_item_id(), text_parts("I look.")),
            ToolCall(new_item_id(), one, "shell", '{"a": 1}'),
            ToolCall(new_item_id(), other, "shell", "{}"),
        ],
        [ToolOutput(new_item_id(), one, text_parts("x")), ToolOutput(new_item_id(), other, text_parts("y"))],
        [AssistantMessage(new_item_id(), text_parts(f"Answer {number}"))],
    ]


@every_api
def test_the_encoded_items_of_a_turn_are_a_prefix_of_those_of_the_next(api: Api) -> None:
    """Byte for byte: that is what providers' caches live on. Marks for the cache are put in later, and not here."""
    wire = api.wire("http://mock.example")
    store = HistoryStore(HistoryLimits(), [UserMessage(new_item_id(), text_parts("<environment/>"), injected=True)])
    before = b""
    for number in range(40):
        for items in turn(number, wire.dialect.name):
            store.append(items)
            now = b",".join(store.encoded(wire.dialect))
            assert now.startswith(before)
            assert len(now) > len(before)
            before = now


@every_api
def test_what_is_sent_is_what_was_sent_before_and_more(api: Api) -> None:
    """The same as the provider sees it: message by message, the marks left out."""
    wire = api.wire("http://mock.example")
    store = HistoryStore(HistoryLimits())
    before: list[Any] = []
    for number in range(10):
        segments = turn(number, wire.dialect.name)
        for items in (segments[0], [*segments[1], *segments[2]]):
            store.append(items)
            body = sent(wire.body_of(history_request(wire.name, store.encoded(wire.dialect))))
            assert flat(body)[: len(before)] == before
            before = flat(body)
        store.append(segments[3])


def history_request(name: str, chunks: tuple[bytes, ...]) -> ModelRequest:
    return ModelRequest(new_conversation_id(), name, "Be brief.", (), chunks, (), b"[]", "key", False)


def sent(parts: list[bytes]) -> list[Any]:
    made = msgspec.json.decode(b"".join(parts).replace(b',"cache_control":{"type":"ephemeral"}', b""))
    return made.get("input") or made["messages"]


def flat(messages: list[Any]) -> list[Any]:
    """Blocks and calls by themselves, because neighbours become one message."""
    atoms: list[Any] = []
    for message in messages:
        content = message.get("content")
        atoms += [(message.get("role"), block) for block in content] if isinstance(content, list) else [message]
    return atoms


@every_api
def test_a_growing_history_is_never_encoded_twice(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = api.wire("http://mock.example")
    store = HistoryStore(HistoryLimits())
    spelled: list[int] = []
    real = type(wire.dialect).encode_items

    def counted(self: Any, items: Any) -> bytes:
        spelled.append(len(items))
        return real(self, items)

    monkeypatch.setattr(type(wire.dialect), "encode_items", counted)
    for number in range(20):
        for items in turn(number, wire.dialect.name):
            store.append(items)
        wire.body_of(history_request(wire.name, store.encoded(wire.dialect)))
    assert sum(spelled) == store.totals.item_count


def test_each_provider_has_a_dialect_of_its_own() -> None:
    """Sealed reasoning opens nowhere else."""
    names = {
        kind(name, "m", ModelProvider(base_url="http://x", wire="chat"), lambda _: None).dialect.name
        for kind in (MessagesWire, ResponsesWire)
        for name in ("one", "other")
    }
    assert len(names) == 4


async def test_a_provider_that_is_silent_for_long_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN, Models: retried at most 4 times and 30 s in all, counted from the first failure."""
    patience = RetryBudget(ModelProvider(base_url="http://127.0.0.1:1", wire="chat"))
    loop = asyncio.get_running_loop()
    now = loop.time()
    assert patience.pause("stream") is not None
    monkeypatch.setattr(loop, "time", lambda: now + 31)
    assert patience.pause("stream") is None
