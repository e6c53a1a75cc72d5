"""The interface of a model wire: a request goes in, a stream of pieces comes out.

A wire knows nothing of conversations, tools that run, or storage; it moves bytes and names what came back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from tertulia.protocol.conversation_fields import ReasoningEffort
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import NO_USAGE, AssistantMessage, Item, Reasoning, ToolCall, Usage
from tertulia.protocol.records import has_long_text
from tertulia.protocol.tool_spec import ToolSpec

StopReason = Literal["stop", "tool_calls", "length", "refusal", "pause", "other"]
"""`pause`: the provider wants to be asked again, with what it has said so far, and goes on then."""


class Dialect(Protocol):
    """How items and tools are spelled for one API.

    Encoding is free of context: the bytes of some items never depend on their neighbours. That is what lets a
    history be encoded once, segment by segment, and never again.
    """

    @property
    def name(self) -> str:
        """Identifies the spelling; encoded bytes are kept under it."""
        ...

    def encode_items(self, items: Sequence[Item]) -> bytes:
        """JSON values joined by commas, without brackets; empty when the dialect has no word for any of them."""
        ...

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """The tools as a JSON array."""
        ...


class ModelSettings(msgspec.Struct, frozen=True):
    """The settings of a request. None: the provider or the model decides."""

    reasoning_effort: ReasoningEffort | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None


class ModelRequest(msgspec.Struct, frozen=True):
    """All that one model request needs. `items` and `chunks` are the same history, as objects and as bytes."""

    conversation_id: ConversationId
    model: str
    instructions: str
    items: Iterable[Item]
    """Oldest first; may be walked more than once; does not change under the reader."""
    chunks: tuple[bytes, ...]
    """In the wire's dialect: join them with commas, put brackets around. None is empty."""
    tools: tuple[ToolSpec, ...]
    tools_json: bytes
    cache_key: str
    """Equal for requests that share instructions, tools and model family."""
    store: bool
    """Whether the provider may keep the exchange; follows the storage policy."""
    output_schema: str | None = None
    """JSON Schema text that the answer must follow, where the API can promise that."""
    output_name: str = "answer"
    """What the schema is called, where the API wants a name."""
    settings: ModelSettings = ModelSettings()
    """What the wire cannot pass on it has refused before, see `ChecksSettings`."""


class _Delta(msgspec.Struct, frozen=True, gc=False):
    item_id: ItemId
    text: str


class TextDelta(_Delta, frozen=True, gc=False):
    """A piece of the answer's text."""


class ReasoningDelta(_Delta, frozen=True, gc=False):
    """A piece of the model's reasoning."""


class AnswerItem(msgspec.Struct, frozen=True, gc=False):
    """A whole item of the answer. Its id is that of the deltas before it."""

    item: AssistantMessage | Reasoning | ToolCall


class ProviderSearch(msgspec.Struct, frozen=True, gc=False):
    """The provider searched the web."""

    call_id: CallId
    query: str | None = None
    """None while the search is starting."""


class RetryNotice(msgspec.Struct, frozen=True, gc=False):
    """The request failed and is sent again: what was streamed so far is void."""

    message: str


class AnswerWarning(msgspec.Struct, frozen=True, gc=False):
    """Something of the answer could not be kept; the rest is whole."""

    message: str


class AnswerEnd(msgspec.Struct, frozen=True, gc=False):
    """The answer is complete; nothing follows."""

    usage: Usage = NO_USAGE
    stop_reason: StopReason = "stop"


class AnswerFailure(msgspec.Struct, frozen=True, gc=False):
    """There will be no answer. The message is fit to be shown: no keys, no bodies."""

    message: str
    code: str = "model_error"
    overflow: bool = False
    """The history does not fit the model's window; trimming may help."""
    another_may_help: bool = False
    """Another model may answer the same request: neither the request nor the key is wrong."""


AnswerPiece = (
    TextDelta | ReasoningDelta | AnswerItem | ProviderSearch | RetryNotice | AnswerWarning | AnswerEnd | AnswerFailure
)


class Wire(Protocol):
    """One model, reached one way.

    Contract of `stream`: failures of the provider or the network are yielded as `AnswerFailure`, never raised; the last
    piece is `AnswerEnd` or `AnswerFailure`, exactly one of them; closing the iterator or cancelling the reader closes
    the connection before it returns; the wire keeps no state from one request to the next that could change
    an answer, so any number of streams may run at once.
    """

    @property
    def name(self) -> str:
        """`provider/model`, as people write it."""
        ...

    @property
    def family(self) -> str:
        """Models of one family share prompts and therefore caches."""
        ...

    @property
    def context_window(self) -> int:
        """How many tokens request and answer may have together."""
        ...

    @property
    def dialect(self) -> Dialect:
        """How this wire spells items."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """Ask, and yield what comes."""
        ...

    async def close(self) -> None:
        """Close all connections. Calling it twice has no effect."""
        ...


@runtime_checkable
class ChecksSettings(Protocol):
    """A wire that knows which settings its API takes. One that does not is given them as they are."""

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise InvalidParams with the reason where the API, or this model, has no such setting."""
        ...


class ItemsDialect:
    """Items as this package encodes them: for the scripted model, and as the baseline of benchmarks."""

    __slots__ = ("_encoder",)
    name = "items"

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()

    def encode_items(self, items: Sequence[Item]) -> bytes:
        """Each item with its type tag."""
        if not has_long_text(items):
            return self._encoder.encode(items)[1:-1]
        # Imported here: most texts are short.
        from tertulia.protocol.json_steps import encode_long

        return encode_long(items, bare=True)

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """Each spec with its schema as JSON, not as text."""
        return self._encoder.encode([(t.name, t.description, msgspec.Raw(t.schema.encode())) for t in tools])
