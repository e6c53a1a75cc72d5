"""A segment: the items of a turn, sealed. Digest, sizes and open calls are computed once, when it is sealed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.history.sanitiser import prove
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, Summary, TextPart, ToolCall, UserMessage

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_000
"""What a picture costs a model, roughly, however long its address is."""

_PIECE_CHARACTERS = 64 * 1024
_PROVIDED = (AssistantMessage, Reasoning, ToolCall)
_canonical = msgspec.json.Encoder()


class Segment(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Frozen items and the values computed from them. Shared by reference between a history, its views and forks."""

    items: tuple[Item, ...]
    digest: bytes
    """SHA-256 of the items' canonical JSON."""
    opens: tuple[CallId, ...]
    """Calls whose output comes later, in order."""
    closes: tuple[CallId, ...]
    """Outputs whose call came earlier, in order."""
    byte_count: int
    """UTF-8 bytes of all texts, arguments and addresses: roughly the memory that the items take."""
    weight: int
    """The bytes that count as tokens: like byte_count, but a picture counts `IMAGE_TOKENS`."""
    message_count: int
    """How many messages of users and the model it has; injected ones are not counted."""
    pinned: bool
    """Whether it is never trimmed and never summarised."""


def seal(items: Iterable[Item], *, pinned: bool = False) -> Segment:
    """Prove, weigh and hash the items. Raises Internal for impossible pairs, InvalidParams for broken Unicode."""
    sealed = tuple(items)
    opens, closes = prove(sealed)
    try:
        byte_count, weight = _weigh(sealed)
        digest = _digest(sealed, byte_count)
    except UnicodeEncodeError:
        raise InvalidParamsError("an item has a lone surrogate; history holds valid Unicode only") from None
    messages = sum(map(is_message, sealed))
    return Segment(sealed, digest, opens, closes, byte_count, weight, messages, pinned)


def _digest(items: tuple[Item, ...], byte_count: int) -> bytes:
    if byte_count <= _PIECE_CHARACTERS:
        return hashlib.sha256(_canonical.encode(items)).digest()
    # Imported here: most texts are short.
    from tertulia.protocol.json_steps import encoded_pieces

    # In pieces, so that a long text is not held in memory twice while its digest is computed.
    digest = hashlib.sha256()
    for piece in encoded_pieces(items):
        digest.update(piece)
    return digest.digest()


def supersedes(newer: Segment, older: Segment) -> bool:
    """Whether a pinned segment replaces an older one: both are one injected message of the same tag."""
    return newer.pinned and older.pinned and _tag(newer) is not None and _tag(newer) == _tag(older)


def _tag(segment: Segment) -> str | None:
    match segment.items:
        case (UserMessage(injected=True) as message,):
            return message.text.partition(">")[0]
        case _:
            return None


def is_message(item: Item) -> bool:
    """Whether listings and counts include the item: a message of a user or of the model, not an injected one."""
    return isinstance(item, AssistantMessage) or is_user_request(item)


def is_user_request(item: Item) -> bool:
    """Whether the item is a user's own message, which begins a round."""
    return isinstance(item, UserMessage) and not item.injected


def estimate_tokens(weight: int) -> int:
    """The estimated tokens of a weight: one for every four bytes, rounded up."""
    return -(-weight // BYTES_PER_TOKEN)


def utf8_size(text: str) -> int:
    """The size of a text in UTF-8, without encoding it if it is ASCII. UnicodeEncodeError for a lone surrogate."""
    if text.isascii():
        return len(text)
    if len(text) <= _PIECE_CHARACTERS:
        return len(text.encode())
    # In pieces, so that a long text is not held in memory twice while its size is computed.
    pieces = range(0, len(text), _PIECE_CHARACTERS)
    return sum(len(text[start : start + _PIECE_CHARACTERS].encode()) for start in pieces)


def _weigh(items: Iterable[Item]) -> tuple[int, int]:
    """(bytes held, bytes that count as tokens)."""
    texts = pictures = addresses = 0
    for item in items:
        if isinstance(item, _PROVIDED) and item.opaque is not None:
            texts += utf8_size(item.opaque)
        if isinstance(item, ToolCall):
            texts += utf8_size(item.name) + utf8_size(item.arguments)
        elif isinstance(item, (Reasoning, Summary)):
            texts += utf8_size(item.text)
        else:
            for part in item.parts:
                if isinstance(part, TextPart):
                    texts += utf8_size(part.text)
                else:
                    pictures += 1
                    addresses += utf8_size(part.image_url)
    return texts + addresses, texts + pictures * IMAGE_TOKENS * BYTES_PER_TOKEN
