"""What a session has to remember besides its events, told to the journal when it happens.

Together with the events these are enough to put every conversation back as it was. Frozen data, like everything here.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

import msgspec
from msgspec.structs import astuple

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import Item, Summary, ToolOutput, UserMessage
from tertulia.protocol.storage import StoragePolicy


class TermsRecord(msgspec.Struct, frozen=True):
    """A conversation was made, or its terms changed. Before this nothing is recorded of it.

    A storage policy stricter than the former one holds for what was recorded earlier too, before the next event is
    committed.
    """

    conversation_id: ConversationId
    storage: StoragePolicy
    rights: dict[str, Any]
    """What it may do, in wire spelling, without paths: no text of a user or a model."""
    place: dict[str, Any]
    """parent_id, depth, model, backend, because: no text of a user or a model."""
    terms: dict[str, Any]
    """All the rest: instructions, title, directories, what a reset goes back to, what was narrowed."""


class ForkRecord(msgspec.Struct, frozen=True, gc=False):
    """A conversation begins with the first items of another one."""

    conversation_id: ConversationId
    source: ConversationId
    items: int
    total: int = 0
    """How many that one had; the oldest may have expired from the record by the time it is read. 0: not known."""


class ItemsRecord(msgspec.Struct, frozen=True, gc=False):
    """Items joined a history as one segment."""

    conversation_id: ConversationId
    items: tuple[Item, ...]
    pinned: bool = False
    seed: bool = False
    """The first messages of a conversation, which are never superseded."""


class ToolOutputRecord(msgspec.Struct, frozen=True, gc=False):
    """A tool has answered; its output joins the history when the turn of its call comes."""

    conversation_id: ConversationId
    output: ToolOutput


class QueuedInputRecord(msgspec.Struct, frozen=True, gc=False):
    """Input was accepted that the model has not seen yet; it joins the history later under the same item id."""

    conversation_id: ConversationId
    message: UserMessage


class RewriteRecord(msgspec.Struct, frozen=True, gc=False):
    """Older segments went, and a summary may have come: `kept[:place]`, the summary, `kept[place:]`, then the rest."""

    conversation_id: ConversationId
    kept: tuple[int, ...]
    """Positions of those before `end` that stayed."""
    end: int
    place: int
    summary: Summary | None
    total: int = 0
    """How many there were; the oldest may have expired from the record by the time it is read. 0: not known."""


class SubmissionRecord(msgspec.Struct, frozen=True, gc=False):
    """A message was accepted under these ids; its task may not have begun yet."""

    conversation_id: ConversationId
    task_id: TaskId
    trace_id: str
    message: str | None = None
    """The key of the client's message id, where it gave one."""


class ModelRequestRecord(msgspec.Struct, frozen=True, gc=False):
    """A model was asked: what the request was made of, by digest."""

    conversation_id: ConversationId
    task_id: TaskId
    instructions: str
    tools: str
    history: str
    items: int
    prompt: str
    """Of all of it, the form of the answer included."""
    tools_json: bytes
    """The tool list itself, recorded once for each digest of a conversation."""
    override: str | None = None
    """Instructions for this request only."""
    output_schema: str | None = None
    storage: StoragePolicy | None = None
    """The strictest policy of those on whose behalf it was asked, where that may be stricter than its own."""
    summarises: tuple[tuple[int, int], ...] = ()
    """Where notes were asked for instead of an answer: which items of the history, each range up to its end."""


class CanvasRecord(msgspec.Struct, frozen=True, gc=False):
    """An agent's canvas shows something else."""

    conversation_id: ConversationId
    revision: int
    html: str | None = None
    """None: it was cleared, or the page is not stored any more."""
    title: str | None = None
    updated_at: str | None = None
    storage: StoragePolicy | None = None
    """The strictest policy of those on whose behalf it was drawn, where that may be stricter than its own."""


MCP_PINS = "mcp_pins"
"""The note with the digest of each MCP tool that its conversation was shown, by name. No text of a user or a model."""
NATIVE_SESSION = "bond"
"""The note with the id under which an executor remembers its conversation."""


class NoteRecord(msgspec.Struct, frozen=True, gc=False):
    """Something small that a conversation has to remember. The last value under a name holds."""

    conversation_id: ConversationId
    name: str
    """One of our own words: no text of a user or a model."""
    value: dict[str, Any] | None = None
    """Plain JSON. None: there is nothing to remember any more, or it is not stored."""


def names_a_file(model: str) -> bool:
    """Whether a model's name is that of a script: the name of a file is a text of its owner."""
    return model.startswith("scripted/") and model not in ("scripted/tour", "scripted/inline")


def message_key(message_id: str, session_id: str) -> str:
    """What a client's message id is known by: the id itself is the client's text, and is kept nowhere.

    Keyed with the session's own random id: the same message id leaves another digest in every session, and a table of
    digests of likely texts finds nothing.
    """
    return hashlib.blake2b(message_id.encode(), digest_size=16, key=session_id.encode()[:64]).hexdigest()


Record = (
    TermsRecord
    | ForkRecord
    | ItemsRecord
    | ToolOutputRecord
    | QueuedInputRecord
    | RewriteRecord
    | SubmissionRecord
    | ModelRequestRecord
    | CanvasRecord
    | NoteRecord
)

# ── long texts ───────────────────────────────────────────────────────────────────────────────────────────────
# Line ends, quotes, backslashes and controls take an encoder ten times as long as other characters, in one step that
# cannot be cut. So the number of them in a text is bounded, and with it how long the event loop is held.

LONG_CHARACTERS = 64 * 1024
"""A longer text is encoded and redacted in steps, or in a thread that stores it: both take a while."""

MAX_ESCAPES = 8 * 1024 * 1024
"""Characters of one text, or of all texts of one message or answer, that are escaped with one backslash."""
MAX_CONTROLS = MAX_ESCAPES * 5 // 8
"""Controls that JSON writes as six characters, where there are no others: each takes an encoder longer."""
TOO_MANY = (
    f"more characters that JSON has to escape (line ends, quotes, backslashes, controls) than the {MAX_ESCAPES:,} "
    f"that there may be ({MAX_CONTROLS:,} where all are controls)"
)

MAX_COST = MAX_ESCAPES * 5
_PIECE = 32 * 1024
_SHORT = b'"\\\b\t\n\f\r'
# As many bits as it costs: a sum over bytes would take Python ten times as long as counting bits does.
_COSTS = bytes(0b11111 if byte in _SHORT else 0xFF if byte < 0x20 else 0 for byte in range(256))


def escape_cost(text: str) -> int:
    """What escaping takes, 5 for a character that gets a backslash and 8 for any other control, as in `MAX_COST`."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        # Most pieces of an answer have none, and this takes a fraction of counting them.
        return 0
    total = 0
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE].encode("utf-8", "surrogatepass")
        total += int.from_bytes(piece.translate(_COSTS), "little").bit_count()
    return total


def has_too_many_escapes(*texts: str) -> bool:
    """Whether these texts together have more than there may be."""
    room = MAX_COST
    # Short texts cannot have so many, and need not be looked at.
    if sum(map(len, texts)) <= MAX_CONTROLS:
        return False
    for text in texts:
        room -= escape_cost(text)
        if room < 0:
            return True
    return False


def has_long_text(value: Any, characters: int = LONG_CHARACTERS) -> bool:
    """Whether a string in it is longer than that."""
    values = [value]
    # Containers put their elements at the end of the list under iteration: no recursion.
    for entry in values:
        if entry is None:
            continue
        if isinstance(entry, str):
            if len(entry) > characters:
                return True
        elif isinstance(entry, (list, tuple)):
            values.extend(cast("list[Any]", entry))
        elif isinstance(entry, dict):
            values.extend(cast("dict[Any, Any]", entry).values())
        elif isinstance(entry, msgspec.Struct):
            values.extend(astuple(entry))
    return False
