"""The items of a history, a closed union of frozen structs; and the token counts of model requests (`Usage`).

An item has a storage policy of its own when it comes from a source with a stricter policy than its conversation's (the
answer of a `headers_only` child in a `full` parent).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.mapping_struct import MappingStruct
from tertulia.protocol.storage import StoragePolicy

_MAX_READABLE = 64 * 1024


class TextPart(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """A piece of text in an item."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, gc=False, tag="image"):
    """A picture, as a data: or https: address."""

    image_url: str


Part = TextPart | ImagePart


class UserMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="user"):
    """A message to the model, from a user or another conversation."""

    id: ItemId
    parts: tuple[Part, ...]
    sender: str | None = None
    """The name of the person or conversation that wrote it, if there are several."""
    injected: bool = False
    """Whether we wrote it, not a person: instructions, environment, additions. Begins with `<tag>`; not in listings."""
    storage: StoragePolicy | None = None

    @property
    def text(self) -> str:
        """The text of all parts, joined."""
        return text_of(self.parts)

    @property
    def has_pictures(self) -> bool:
        """Whether one of its parts is a picture."""
        return any(isinstance(part, ImagePart) for part in self.parts)


MessagePhase = Literal["commentary", "final_answer"]
"""What a model says of a message of its own: a remark on the way, or the answer."""
MESSAGE_PHASES: tuple[MessagePhase, ...] = ("commentary", "final_answer")


class AssistantMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="assistant"):
    """A message that the model wrote."""

    id: ItemId
    parts: tuple[Part, ...]
    storage: StoragePolicy | None = None
    dialect: str = ""
    """The wire dialect that `opaque` belongs to."""
    opaque: str | None = None
    """What the provider wants to have back with it; see `Reasoning.opaque`."""

    @property
    def text(self) -> str:
        """The text of all parts, joined."""
        return text_of(self.parts)

    @property
    def phase(self) -> MessagePhase | None:
        """The phase that the model has given it, which providers want to have back; None where it gave none."""
        return next((phase for phase in MESSAGE_PHASES if phase == self.opaque), None)


class Reasoning(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="reasoning"):
    """Reasoning of the model, as far as its provider shows it."""

    id: ItemId
    text: str
    dialect: str = ""
    """The wire dialect that produced it; other dialects leave it out."""
    opaque: str | None = None
    """The provider's own form (encrypted content, a signature), which is sent back without being read.

    It goes back only over the dialect that produced it, which names the wire, the provider, its address and the model.
    """
    storage: StoragePolicy | None = None


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="tool_call"):
    """The model's call of a tool."""

    id: ItemId
    call_id: CallId
    name: str
    arguments: str
    """The arguments as the model wrote them: JSON text for a function, free text for a custom tool."""
    kind: Literal["function", "custom"] = "function"
    storage: StoragePolicy | None = None
    dialect: str = ""
    """The wire dialect that `opaque` belongs to."""
    opaque: str | None = None
    """What the provider wants to have back with it; see `Reasoning.opaque`."""


class ToolOutput(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="tool_output"):
    """The output of a tool call; each call has exactly one in the end."""

    id: ItemId
    call_id: CallId
    parts: tuple[Part, ...]
    success: bool = True
    kind: Literal["function", "custom"] = "function"
    storage: StoragePolicy | None = None

    @property
    def text(self) -> str:
        """The text of all parts, joined."""
        return text_of(self.parts)


class Summary(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="summary"):
    """Replaces older items that were removed by trimming or compaction."""

    id: ItemId
    text: str
    replaced: int = 0
    """How many items it replaces."""
    storage: StoragePolicy | None = None


Item = UserMessage | AssistantMessage | Reasoning | ToolCall | ToolOutput | Summary


def text_of(parts: tuple[Part, ...]) -> str:
    """The text parts of a message, joined; a single part is returned without a copy."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def text_parts(text: str) -> tuple[Part, ...]:
    """One text as the parts of a message; an empty text has none."""
    return (TextPart(text),) if text else ()


def readable_arguments(call: ToolCall) -> Any:
    """A call's arguments for people and clients: decoded, or as the model wrote them if not JSON or very long."""
    if call.kind == "custom" or len(call.arguments) > _MAX_READABLE:
        return call.arguments
    try:
        return msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return call.arguments


class Usage(MappingStruct, frozen=True, gc=False):
    """The tokens of one request, or the sum of several."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_output_tokens + other.reasoning_output_tokens,
            self.total_tokens + other.total_tokens,
        )


NO_USAGE = Usage()
