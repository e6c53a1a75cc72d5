"""What the dialects of the three APIs share: compact JSON, valid ids, custom tools where an API has no free text."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, cast
from urllib.parse import urlsplit

import msgspec

from tertulia.models.http.provider_error import ProviderAddress
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, Summary, ToolCall
from tertulia.protocol.json_scan import find_excess
from tertulia.protocol.records import has_long_text
from tertulia.protocol.tool_spec import ToolSpec

encode = msgspec.json.Encoder().encode
"""Any value as compact JSON: no whitespace but within strings, so that whitespace can mark the seams."""

_FREE_TEXT = msgspec.Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}'
)


_REDACTED = "[redacted:"
"""In a provider's own form that was stored: it is not what the provider said any more."""


class HttpDialect(ABC):
    """A `Dialect` of one API. Each model has its own: what another one wants to have back is left out."""

    __slots__ = ("joiner", "name")
    api: ClassVar[str]

    def __init__(self, place: ProviderAddress, url: str, joiner: SeamJoiner | None = None) -> None:
        """`url`: where the requests go; of it only a digest becomes part of the name."""
        self.joiner = joiner or SeamJoiner()
        """Puts the chunks of a history together for this API."""
        self.name = f"{self.api}/{place.provider}/{place.model}@{_address_digest(url)}"

    def own_form(self, item: AssistantMessage | Reasoning | ToolCall) -> str | None:
        """What the provider wants to have back with the item, if it was this one that made it."""
        opaque = item.opaque
        return opaque if opaque and item.dialect == self.name and _REDACTED not in opaque else None

    @abstractmethod
    def encode_items(self, items: Sequence[Item]) -> bytes:
        """Each as one JSON value."""

    @abstractmethod
    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """The tools that this API knows, as a JSON array."""


def _address_digest(url: str) -> str:
    """Tells addresses apart, without a password or a query that an address may have."""
    address = urlsplit(url)
    try:
        port = address.port
    except ValueError:
        port = None
    place = f"{address.scheme}://{address.hostname}:{port}{address.path}"
    return hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()[:8]


def encode_item(value: object) -> bytes:
    """Encode a value that may have long texts and has no `msgspec.Raw`, with one copy of them."""
    if not has_long_text(value):
        return encode(value)
    # Imported here: most texts are short.
    from tertulia.protocol.json_steps import encode_long

    return encode_long(value)


def encode_bare(before: bytes, value: object, after: bytes) -> bytes:
    """Encode it without its brackets or quotes, between these bytes."""
    if not has_long_text(value):
        return before + encode(value)[1:-1] + after
    from tertulia.protocol.json_steps import encode_long

    return encode_long(value, before, after, bare=True)


def schema_of(tool: ToolSpec) -> msgspec.Raw:
    """The schema of its arguments; where an API knows no custom tools, their text is the one argument `input`."""
    return _FREE_TEXT if tool.kind == "custom" else msgspec.Raw(tool.schema.encode())


def tool_description(tool: ToolSpec) -> str:
    """What the tool is, and the grammar of its text where only words can tell."""
    if tool.kind == "custom" and tool.grammar:
        return f"{tool.description}\n\nThe input follows this grammar:\n{tool.grammar}"
    return tool.description


def arguments_of(call: ToolCall) -> dict[str, object] | None:
    """The arguments of a call; None where the model wrote no JSON object, or free text."""
    if call.kind == "custom" or find_excess(call.arguments) is not None:
        return None
    try:
        arguments: object = msgspec.json.decode(call.arguments)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", arguments) if isinstance(arguments, dict) else None


def argument_text(call: ToolCall) -> str:
    """The arguments as the text of a JSON object, which some servers insist on; anything else stands in one.

    What the model wrote is kept to the letter, so that a provider's cache knows it again.
    """
    return call.arguments if arguments_of(call) is not None else encode({"input": call.arguments}).decode()


def summary_text(summary: Summary) -> str:
    """The text of a summary of older messages, marked so that it is not taken for a user's message."""
    return f"<summary>\n{summary.text}\n</summary>"


def legal_call_id(call_id: str, legal: re.Pattern[str]) -> str:
    """The call id, or, where the API would refuse it, one that follows from it: a call and its output agree."""
    if legal.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


def json_member(name: str, value: bytes) -> bytes:
    """One more member of a JSON object that has some already."""
    return b',"%b":%b' % (name.encode(), value)


def json_members(text: str | None) -> bytes:
    """The members of a JSON object, as compact JSON without brackets; none of anything else."""
    try:
        value: object = msgspec.json.decode(text or "null")
    except (ValueError, RecursionError):
        return b""
    return encode(value)[1:-1] if isinstance(value, dict) else b""


def json_objects(text: str) -> list[dict[str, object]]:
    """The objects in a JSON array; none of anything else."""
    try:
        value: object = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return []
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, object]", entry) for entry in entries if isinstance(entry, dict)]


class MessageSeam(msgspec.Struct, frozen=True):
    """Where two messages meet that the API wants to be one."""

    end: bytes
    """How the first message ends."""
    begin: bytes
    """How the second message begins."""
    inside: bytes
    """What stands between them when they are one."""


class SeamJoiner:
    """Puts the chunks of a history together, closed at the seams of one API."""

    __slots__ = ("_begins", "_ends", "_marks", "_seams", "_within")

    def __init__(self, *seams: MessageSeam) -> None:
        self._seams = seams
        self._within = [(b"%b,%b" % (seam.end, seam.begin), seam.inside) for seam in seams]
        self._ends = tuple(seam.end for seam in seams)
        self._begins = tuple(seam.begin for seam in seams)
        # The common beginning of seams with the same end: fewer searches through the request.
        begins = {end: [seam.begin for seam in seams if seam.end == end] for end in self._ends}
        marks = [b"%b,%b" % (end, _common_begin(some)) for end, some in begins.items()]
        # One that another one is found in need not be searched for.
        self._marks = tuple(mark for mark in marks if not any(other in mark for other in marks if other is not mark))

    def join(self, chunks: Iterable[bytes]) -> list[bytes]:
        """A history's chunks as one row of JSON values in parts. What has no seam is not copied."""
        parts: list[bytes] = []
        for chunk in chunks:
            for mark in self._marks:
                if mark in chunk:
                    for seam, inside in self._within:
                        chunk = chunk.replace(seam, inside)
                    break
            if not parts:
                parts.append(chunk)
            elif chunk.startswith(self._begins) and parts[-1].endswith(self._ends):
                self._meet(parts, chunk)
            else:
                parts += (b",", chunk)
        return parts

    def _meet(self, parts: list[bytes], chunk: bytes) -> None:
        """Add a chunk that may belong to the message with which the last one ends."""
        for seam in self._seams:
            if parts[-1].endswith(seam.end) and chunk.startswith(seam.begin):
                parts[-1] = parts[-1].removesuffix(seam.end)
                parts += (seam.inside, chunk.removeprefix(seam.begin))
                return
        parts += (b",", chunk)


def _common_begin(texts: Sequence[bytes]) -> bytes:
    """The longest beginning that all of them have."""
    first, last = min(texts), max(texts)
    return next((first[:end] for end in range(len(first), 0, -1) if last.startswith(first[:end])), b"")


def join_chunks(chunks: Sequence[bytes]) -> bytes:
    """A history's chunks as one row of JSON values."""
    return chunks[0] if len(chunks) == 1 else b",".join(chunks)
