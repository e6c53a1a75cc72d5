"""Encodes an item as header and body and decodes it; gives placeholders for items without text."""

from __future__ import annotations

from typing import Any

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

Json = dict[str, Any]
UNKNOWN_TOOL = "unknown"
_TAGS: dict[type[Item], str] = {
    UserMessage: "user", AssistantMessage: "assistant", Reasoning: "reasoning", ToolCall: "tool_call",
    ToolOutput: "tool_output", Summary: "summary",
}  # fmt: skip
_HEADER_FIELDS: dict[type[Item], tuple[str, ...]] = {
    UserMessage: ("injected",), ToolCall: ("kind",), ToolOutput: ("success", "kind"), Summary: ("replaced",),
}  # fmt: skip
_BODY_FIELDS: dict[type[Item], tuple[str, ...]] = {UserMessage: ("sender",), Reasoning: ("dialect", "opaque")}
_DEFAULTS: Json = {
    field.name: field.default for kind in (*_HEADER_FIELDS, *_BODY_FIELDS) for field in msgspec.structs.fields(kind)
}
_KINDS: dict[str, type[Item]] = {tag: kind for kind, tag in _TAGS.items()}


def tag_of(item: Item) -> str:
    """The name of its kind."""
    return _TAGS[type(item)]


def is_tag(name: str) -> bool:
    """Whether it is the name of a kind of item."""
    return name in _KINDS


def split_item(item: Item, *, offered: bool = False, call: int | None = None) -> tuple[Json, Json]:
    """Header and body of an item.

    `offered` says that the name of a call is that of a tool, not a text of the model. `call` is the row of an
    output's call, from which its id can be read.
    """
    header: Json = {}
    body: Json = {"id": item.id}
    match item:
        case ToolCall():
            _put_text(item.arguments, header, body)
            (header if offered else body)["tool"] = item.name
            body["call_id"] = item.call_id
        case ToolOutput():
            _put_parts(item.parts, header, body)
            if call is None:
                body["call_id"] = item.call_id
            else:
                header["call"] = call
        case Reasoning() | Summary():
            _put_text(item.text, header, body)
        case _:
            _put_parts(item.parts, header, body)
    _put_others(item, header, body)
    if item.storage is not None:
        header["storage"] = storage_to_wire(item.storage)
    return header, body


def _put_others(item: Item, header: Json, body: Json) -> None:
    """What an item may have besides its text. The names are the fields', what is not said is the default."""
    for name in _HEADER_FIELDS.get(type(item), ()):
        if (value := getattr(item, name)) != _DEFAULTS[name]:
            header[name] = value
    for name in _BODY_FIELDS.get(type(item), ()):
        if (value := getattr(item, name)) != _DEFAULTS[name]:
            body[name] = value


def join_item(tag: str, header: Json, body: Json | None, n: int, call_id: CallId | None) -> Item:
    """The item of a row, or a placeholder of the same kind. `call_id` is that of an output's call, if its row is known.

    Raises msgspec.ValidationError or a TertuliaError for a row that is no item.
    """
    given = _placeholder(tag, header, n) if body is None else body
    kind = _KINDS[tag]
    values: Json = {"type": tag, "id": given.get("id")}
    text = given.get("text")
    if kind is ToolCall:
        name = header.get("tool", given.get("tool", UNKNOWN_TOOL))
        values |= {"name": name, "call_id": given.get("call_id"), "arguments": text}
    elif kind is Reasoning or kind is Summary:
        values["text"] = text
    else:
        values["parts"] = given.get("parts") if text is None else [{"type": "text", "text": text}]
    if kind is ToolOutput:
        values["call_id"] = given.get("call_id") if call_id is None else call_id
    values |= {name: header[name] for name in _HEADER_FIELDS.get(kind, ()) if name in header}
    values |= {name: given[name] for name in _BODY_FIELDS.get(kind, ()) if name in given}
    if "storage" in header:
        values["storage"] = storage_from_wire(header["storage"])
    return msgspec.convert(values, kind)


def synthetic_call_id(row: int) -> CallId:
    """The id of a call whose own is not stored. Derived from its row, so that its output finds it."""
    return CallId(f"row-{row}")


def _placeholder(tag: str, header: Json, n: int) -> Json:
    size = f"{count(header, 'chars')} characters"
    if "parts" in header:
        size += f", {count(header, 'parts')} parts"
    text = "{}" if tag == "tool_call" else f"[not stored: {size}]"
    row = count(header, "call") if tag == "tool_output" else n
    return {"id": ItemId(f"row-{n}"), "text": text, "call_id": synthetic_call_id(row or n)}


def count(header: Json, key: str) -> int:
    """A number of a header; 0 for what is none."""
    value = header.get(key)
    return value if type(value) is int and value >= 0 else 0


def _put_text(text: str, header: Json, body: Json) -> None:
    header["chars"] = len(text)
    body["text"] = text


def _put_parts(parts: tuple[Part, ...], header: Json, body: Json) -> None:
    if len(parts) == 1 and isinstance(part := parts[0], TextPart):
        _put_text(part.text, header, body)
    else:
        header["chars"] = len(text_of(parts))
        header["parts"] = len(parts)
        body["parts"] = parts
