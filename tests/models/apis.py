"""The three APIs side by side, and the contract of wires performed over each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Self

import msgspec
import pytest

from tertulia.models.catalog import ModelProvider, WireName
from tertulia.models.http.chat import ChatWire
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.messages import MessagesWire
from tertulia.models.http.responses import ResponsesWire
from tertulia.models.http.sse import EventSplitter
from tertulia.models.provider_keys import ProviderKeys
from tertulia.models.wire import AnswerItem, AnswerPiece, ModelRequest, Wire
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_parts,
)
from tertulia.protocol.network.access import DIRECT
from tertulia.protocol.tool_spec import ToolSpec
from tests.models.mock_provider import (
    Answering,
    MockProvider,
    Reply,
    Told,
    chat_events,
    in_turn,
    messages_events,
    refused,
    responses_events,
    streamed,
)
from tests.models.wire_contract import Act, WireContract, a_request, read

KEY = "sk-canary-0123456789abcdef"
ENV_KEY = "MOCK_API_KEY"


class Api(msgspec.Struct, frozen=True):
    """One of them: our side and the mock's."""

    name: WireName
    kind: type[HttpWire]
    events: Callable[[Told], list[bytes]]
    overflow: dict[str, Any]
    """How it says that a request is too long."""

    def wire(self, url: str, *, model: str = "gpt-5.2", key: str | None = KEY, **settings: Any) -> HttpWire:
        """A wire to a mock. It never waits between attempts."""
        sleep, access = settings.pop("sleep", no_wait), settings.pop("access", DIRECT)
        provider = ModelProvider(base_url=url, wire=self.name, **{"env_key": ENV_KEY, **settings})
        return self.kind("mock", model, provider, ProviderKeys({ENV_KEY: key or ""}), sleep=sleep, access=access)

    def answer(self, reply: Told) -> Reply:
        """The stream of a whole answer."""
        return streamed(*self.events(reply))

    def begun(self, reply: Told, until: str) -> list[bytes]:
        """The events up to the first that has these words in it."""
        events = self.events(reply)
        place = next(number for number, event in enumerate(events) if until.encode() in event)
        return events[: place + 1]


RESPONSES = Api(
    "responses",
    ResponsesWire,
    responses_events,
    {"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}},
)
CHAT = Api(
    "chat",
    ChatWire,
    chat_events,
    {"error": {"code": None, "message": "This model's maximum context length is 8192 tokens, you asked for 9000."}},
)
MESSAGES = Api(
    "messages",
    MessagesWire,
    messages_events,
    {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8192"}},
)
APIS = (RESPONSES, CHAT, MESSAGES)

every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


async def no_wait(_: float) -> None:
    """Pauses between attempts take no time in tests."""


def body(wire: HttpWire, request: ModelRequest) -> Any:
    """What would be sent, decoded."""
    return msgspec.json.decode(b"".join(wire.body_of(request)))


def said(pieces: list[AnswerPiece]) -> list[AssistantMessage | Reasoning | ToolCall]:
    """The whole items of an answer."""
    return [piece.item for piece in pieces if isinstance(piece, AnswerItem)]


class Recording:
    """A line without a network: each attempt gets the next of these streams, in these chunks."""

    is_json = False

    def __init__(self, *streams: Sequence[bytes]) -> None:
        self._streams = [*streams]
        self._chunks: list[bytes] = []
        self._splitter = EventSplitter()
        self.attempts = 0

    @asynccontextmanager
    async def post(self, body: Sequence[bytes], headers: Mapping[str, str]) -> AsyncIterator[Self]:
        self._chunks = [*(self._streams.pop(0) if len(self._streams) > 1 else self._streams[0])]
        self._splitter = EventSplitter()
        self.attempts += 1
        yield self

    async def next_events(self, *, progress: bool = True) -> list[bytearray]:
        while self._chunks:
            if events := self._splitter.feed(self._chunks.pop(0)):
                return events
        return []

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def heard(api: Api, *streams: Sequence[bytes], **settings: Any) -> list[AnswerPiece]:
    """What a wire makes of streams; the last one is repeated for further attempts."""
    wire = api.wire("http://mock.example", env_key=None, **settings)
    wire._line = Recording(*streams)
    return await read(wire, a_request(dialect=wire.dialect))


class ApiContract(WireContract):
    """WireContract against the mock; the test file of a wire says which API."""

    api: Api

    def _answering(self, act: Act) -> Answering | Reply:
        plain, api = Told(text="One two three."), self.api
        match act:
            case "answers":
                return api.answer(plain)
            case "thinks":
                return api.answer(Told(thought="Let me see.", text="Yes."))
            case "calls_tools":
                return api.answer(Told(calls=(("call_1", "shell", "{}"), ("call_2", "update_plan", "{}"))))
            case "says_nothing":
                return api.answer(Told())
            case "retries":
                return in_turn(streamed(*api.begun(plain, "One"), "cut"), api.answer(plain))
            case "fails":
                return refused("400 Bad Request", {"error": {"message": "no"}})
            case "overflows":
                return refused("400 Bad Request", api.overflow)
            case "hangs":
                return Reply(("stall",), raw=True)
            case "stalls":
                return streamed(*api.begun(plain, "One"), "stall")

    @asynccontextmanager
    async def wire_that(self, act: Act) -> AsyncIterator[Wire]:
        async with MockProvider(self._answering(act)) as mock:
            wire = self.api.wire(mock.url)
            self._mocks: dict[Wire, MockProvider] = {wire: mock}
            try:
                yield wire
            finally:
                await wire.close()

    def open_streams(self, wire: Wire) -> int:
        return self._mocks[wire].open_streams


# ---- a history with one of everything

PNG = "data:image/png;base64,AAAA"
TOOLS = (
    ToolSpec.define("shell", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}}),
    ToolSpec.define("apply_patch", "Changes files.", kind="custom", grammar="start: /.+/"),
    ToolSpec.define("notes", "Takes notes.", kind="custom"),
    ToolSpec.define("web_search", "Searches the web.", kind="hosted"),
)


def one_of_everything(dialect: str, sealed: str) -> list[Item]:
    """Reasoning is of this dialect, sealed so, and of another one."""
    numbers = count(1)

    def number() -> ItemId:
        return ItemId(f"{next(numbers):016x}")

    return [
        UserMessage(number(), text_parts("<environment/>"), injected=True),
        Summary(number(), "They said hello.", replaced=4),
        UserMessage(number(), (TextPart("Look:"), ImagePart(PNG), ImagePart("https://a.example/b.png"))),
        Reasoning(number(), "Let me see.", dialect, sealed),
        Reasoning(number(), "Foreign.", "other/provider", "sealed elsewhere"),
        Reasoning(number(), "Unsealed.", dialect),
        AssistantMessage(number(), text_parts("I look.")),
        ToolCall(number(), CallId("call_1"), "shell", '{"command": "ls"}'),
        ToolCall(number(), CallId("call_2"), "apply_patch", "*** Begin", "custom"),
        ToolCall(number(), CallId("call.3:x"), "shell", "{broken"),
        ToolOutput(number(), CallId("call_1"), (TextPart("a.txt"), ImagePart(PNG))),
        ToolOutput(number(), CallId("call_2"), text_parts("Done."), kind="custom"),
        ToolOutput(number(), CallId("call.3:x"), text_parts("not JSON"), success=False),
        UserMessage(number(), text_parts("And quick!")),
        AssistantMessage(number(), text_parts("It is")),
        AssistantMessage(number(), text_parts('a "file".')),
        AssistantMessage(number(), ()),
        UserMessage(number(), (TextPart("Thanks"), TextPart("a lot."))),
    ]
