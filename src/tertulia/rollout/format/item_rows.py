"""Splits an item into header and body, and joins them again; gives placeholders for items without text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    Item,
    Part,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_of,
)
from tertulia.protocol.storage import storage_from_wire, storage_to_wire

UNKNOWN_TOOL = "unknown"
_Count = Annotated[int, msgspec.Meta(ge=0)]
_TAGS: dict[type[Item], str] = {
    UserMessage: "user", AssistantMessage: "assistant", Reasoning: "reasoning", ToolCall: "tool_call",
    ToolOutput: "tool_output", Summary: "summary",
}  # fmt: skip
_PROVIDED = (AssistantMessage, Reasoning, ToolCall)
"""Items that a provider may want to have back in a form of its own."""


class ItemHeader(msgspec.Struct, gc=False, omit_defaults=True):
    """What is no text of an item, and its place in its segment. The names are those of the item's own fields."""

    chars: _Count = 0
    """How many characters its text has."""
    parts: _Count | None = None
    """How many parts it has, where it is not one text."""
    tool: str | None = None
    """The name of the tool that is called, where the model was offered it."""
    injected: bool = False
    kind: Literal["function", "custom"] = "function"
    success: bool = True
    replaced: int = 0
    storage: Any = None
    same: bool = False
    """Whether the item is that of its source."""
    i: _Count = 0
    """Which item of its segment it is."""
    of: _Count = 1
    """How many that segment has."""
    pinned: bool = False
    seed: bool = False


class ItemBody(msgspec.Struct, gc=False, omit_defaults=True):
    """The text of an item, and what a user or a model may have written."""

    id: ItemId
    text: str | None = None
    """Of an item with one text; others have `parts`."""
    parts: tuple[Part, ...] | None = None
    call_id: CallId | None = None
    """Of a call; of an output, where its call is not recorded."""
    tool: str | None = None
    sender: str | None = None
    dialect: str = ""
    opaque: str | None = None


def tag_of(item: Item) -> str:
    """The name of its kind."""
    return _TAGS[type(item)]


def split_item(item: Item, *, offered: bool = False, has_call: bool = False) -> tuple[ItemHeader, ItemBody]:
    """Header and body of an item.

    Args:
        item: The item.
        offered: Whether the name of a call is that of a tool, not a text of the model.
        has_call: Whether an output's call is recorded, from which its id can be read.

    Returns:
        Both, without the item's place in its segment.
    """
    header, body = ItemHeader(), ItemBody(item.id)
    if isinstance(item, _PROVIDED):
        body.dialect, body.opaque = item.dialect, item.opaque
    if isinstance(item, ToolCall):
        header.kind = item.kind
        body.text, body.call_id = item.arguments, item.call_id
        if offered:
            header.tool = item.name
        else:
            body.tool = item.name
    elif isinstance(item, Reasoning):
        body.text = item.text
    elif isinstance(item, Summary):
        body.text, header.replaced = item.text, item.replaced
    else:
        _split_parts(item.parts, header, body)
        if isinstance(item, UserMessage):
            header.injected, body.sender = item.injected, item.sender
        elif isinstance(item, ToolOutput):
            header.success, header.kind = item.success, item.kind
            body.call_id = None if has_call else item.call_id
    if body.text is not None:
        header.chars = len(body.text)
    if item.storage is not None:
        header.storage = storage_to_wire(item.storage)
    return header, body


def _split_parts(parts: tuple[Part, ...], header: ItemHeader, body: ItemBody) -> None:
    if len(parts) == 1 and isinstance(part := parts[0], TextPart):
        body.text = part.text
    else:
        header.chars, header.parts, body.parts = len(text_of(parts)), len(parts), parts


def without_measures(header: ItemHeader) -> ItemHeader:
    """The header of an item that may not be stored at all: that there was one, and not even its length."""
    return msgspec.structs.replace(header, chars=0, parts=None, replaced=0, tool=None)


def join_item(tag: str, header: ItemHeader, body: ItemBody | None, n: int, call: CallId | None) -> Item:
    """The item of a row, or a placeholder of the same kind.

    Args:
        tag: The name of its kind.
        header: Its header.
        body: Its body; None for one that is not stored.
        n: The number of its row.
        call: Of an output the id of its call, where that is recorded.

    Returns:
        The item.

    Raises:
        LookupError: for a row that is no item.
        InvalidParamsError: for a storage policy that is none.
    """
    if body is None:
        body = _placeholder(tag, header, n)
    storage = None if header.storage is None else storage_from_wire(header.storage)
    text, id = body.text, body.id
    if tag == "tool_call" and text is not None and body.call_id is not None:
        name = header.tool if header.tool is not None else body.tool
        name = UNKNOWN_TOOL if name is None else name
        return ToolCall(id, body.call_id, name, text, header.kind, storage, body.dialect, body.opaque)
    if tag == "reasoning" and text is not None:
        return Reasoning(id, text, body.dialect, body.opaque, storage)
    if tag == "summary" and text is not None:
        return Summary(id, text, header.replaced, storage)
    parts = body.parts if text is None else (TextPart(text),)
    if tag == "user" and parts is not None:
        return UserMessage(id, parts, body.sender, header.injected, storage)
    if tag == "assistant" and parts is not None:
        return AssistantMessage(id, parts, storage, body.dialect, body.opaque)
    call_id = body.call_id if call is None else call
    if tag == "tool_output" and parts is not None and call_id is not None:
        return ToolOutput(id, call_id, parts, header.success, header.kind, storage)
    raise LookupError("no item")


def synthetic_call_id(row: int) -> CallId:
    """The id of a call whose own is not stored. Derived from its row, so that its output finds it."""
    return CallId(f"row-{row}")


def _placeholder(tag: str, header: ItemHeader, n: int) -> ItemBody:
    size = f"{header.chars} characters"
    if header.parts is not None:
        size += f", {header.parts} parts"
    text = "{}" if tag == "tool_call" else f"[not stored: {size}]"
    return ItemBody(ItemId(f"row-{n}"), text, call_id=synthetic_call_id(n))
