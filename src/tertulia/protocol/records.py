"""The records that a session stores besides its events; the journal gets each one when it is made.

Records and events together are enough to restore every conversation.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import astuple

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import Item, Summary, ToolOutput, UserMessage
from tertulia.protocol.storage import StoragePolicy


class TermsRecord(msgspec.Struct, frozen=True):
    """A conversation was opened, or its terms changed. It is the first record of a conversation.

    A storage policy stricter than the former one is applied to earlier records too, before the next event is
    committed.
    """

    conversation_id: ConversationId
    storage: StoragePolicy
    rights: dict[str, Any]
    """The rights of the conversation, in wire spelling, without paths: no text of a user or a model."""
    place: dict[str, Any]
    """parent_id, depth, model, backend, because: no text of a user or a model."""
    terms: dict[str, Any]
    """All other terms: instructions, title, directories, the values that a reset restores, what was narrowed."""


class ForkRecord(msgspec.Struct, frozen=True, gc=False):
    """A conversation begins with the first items of another one."""

    conversation_id: ConversationId
    source: ConversationId
    items: int
    total: int = 0
    """How many items the source had; the oldest records may have expired when this is read. 0: not known."""


class ItemsRecord(msgspec.Struct, frozen=True, gc=False):
    """Items were appended to a history as one segment."""

    conversation_id: ConversationId
    items: tuple[Item, ...]
    pinned: bool = False
    seed: bool = False
    """Whether these are the first messages of a conversation, which are never superseded."""


class ToolOutputRecord(msgspec.Struct, frozen=True, gc=False):
    """A tool has returned its output, which is appended to the history later, in the order of the calls."""

    conversation_id: ConversationId
    output: ToolOutput


class QueuedInputRecord(msgspec.Struct, frozen=True, gc=False):
    """Input was accepted that the model has not seen yet; it joins the history later, with the same item id."""

    conversation_id: ConversationId
    message: UserMessage


class RewriteRecord(msgspec.Struct, frozen=True, gc=False):
    """Older segments were dropped: left are `kept[:place]`, the summary if any, `kept[place:]`, then the rest.

    Or, where `shortened` is not empty, tool outputs were reduced to their beginning and end.
    """

    conversation_id: ConversationId
    kept: tuple[int, ...]
    """Positions of the segments before `end` that were kept."""
    end: int
    place: int
    summary: Summary | None
    total: int = 0
    """How many segments there were; the oldest records may have expired when this is read. 0: not known."""
    shortened: tuple[int, ...] = ()
    """Positions of the segments whose tool outputs were shortened."""
    shortened_to: int = 0
    """What was left of each of those outputs, in bytes."""


class SubmissionRecord(msgspec.Struct, frozen=True, gc=False):
    """A message was accepted under these ids; its task may not have begun yet."""

    conversation_id: ConversationId
    task_id: TaskId
    trace_id: str
    message: str | None = None
    """The key (`message_key`) of the client's message id, if the client sent one."""


PlanStep = Literal["chain", "target", "continuation", "stopped", "continued", "answered"]
"""A message was accepted; its chain handed over to a target, and has a continuation then; a part of the chain was
stopped; the chain went on after a crash; it was answered."""


class PlanRecord(msgspec.Struct, frozen=True, gc=False):
    """A step of a chain that goes on after a crash. Chains that do not, the usual ones, have none."""

    conversation_id: ConversationId
    step: PlanStep
    task_id: TaskId
    """The task that was planned; of the last three steps, the first of the chain or the one that was stopped."""
    trace_id: str
    plan: dict[str, Any] | None = None
    """Plain JSON, see `scheduler/chain_records.py`. None: there is none, or it is not stored."""
    storage: StoragePolicy | None = None
    """The strictest policy of the chain, where that may be stricter than the conversation's own."""


class ModelRequestRecord(msgspec.Struct, frozen=True, gc=False):
    """A request was sent to a model: the digests of its parts."""

    conversation_id: ConversationId
    task_id: TaskId
    instructions: str
    tools: str
    history: str
    items: int
    prompt: str
    """The digest of the whole request, the output schema included."""
    tools_json: bytes
    """The tool list itself, recorded once for each digest of a conversation."""
    override: str | None = None
    """Instructions for this request only."""
    output_schema: str | None = None
    storage: StoragePolicy | None = None
    """The strictest policy of the conversations that caused the request, where that may be stricter than its own."""
    summarises: tuple[tuple[int, int], ...] = ()
    """For a request that summarises: the ranges (start, end) of the history's items, without the end."""
    model: str | None = None
    """The model that was asked; None: the conversation's own."""


class CanvasRecord(msgspec.Struct, frozen=True, gc=False):
    """An agent's canvas was changed or cleared."""

    conversation_id: ConversationId
    revision: int
    html: str | None = None
    """The page; None: it was cleared, or is no longer stored."""
    title: str | None = None
    updated_at: str | None = None
    storage: StoragePolicy | None = None
    """The strictest policy of the conversations that caused the change, where that may be stricter than its own."""


MCP_PINS = "mcp_pins"
"""The note with the digests of the MCP tools that the model was shown, by name. No text of a user or a model."""
PAUSE = "pause"
"""The note with the last item of an answer in which the provider has paused, where tasks go on after a crash."""
NATIVE_SESSION = "bond"
"""The note with the id of the executor's own session for the conversation."""


class NoteRecord(msgspec.Struct, frozen=True, gc=False):
    """A small value that belongs to a conversation, by name. A later value replaces an earlier one of the same name."""

    conversation_id: ConversationId
    name: str
    """One of the constants above: no text of a user or a model."""
    value: dict[str, Any] | None = None
    """Plain JSON. None: the value was removed, or is not stored."""


def names_a_file(model: str) -> bool:
    """Whether a model's name contains the name of a script file, which counts as a text of the user."""
    return model.startswith("scripted/") and model not in ("scripted/tour", "scripted/inline")


def recorded_model(name: str) -> str:
    """The name of a model without a file's name, which is a text of a person."""
    return name.partition("/")[0] if names_a_file(name) else name


def message_key(message_id: str, session_id: str) -> str:
    """The digest that is stored in place of a client's message id, which is the client's text and is stored nowhere.

    Keyed with the session's random id: the same message id has another digest in every session, so that a precomputed
    table of digests finds nothing.
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
    | PlanRecord
    | ModelRequestRecord
    | CanvasRecord
    | NoteRecord
)

# ── long texts ───────────────────────────────────────────────────────────────────────────────────────────────
# Line ends, quotes, backslashes and controls take an encoder ten times as long as other characters, in one call that
# cannot be interrupted. So their number in a text is bounded, and with it the time for which the event loop is blocked.

LONG_CHARACTERS = 64 * 1024
"""A longer text is encoded and redacted in steps, or in the thread that stores it, because that takes a while."""

MAX_ESCAPES = 8 * 1024 * 1024
"""Characters of one text, or of all texts of one message or answer, that are escaped with one backslash."""
MAX_CONTROLS = MAX_ESCAPES * 5 // 8
"""The limit for a text whose escapes are all controls that JSON writes as six characters: these take longer."""
TOO_MANY = (
    f"more characters that JSON has to escape (line ends, quotes, backslashes, controls) than the {MAX_ESCAPES:,} "
    f"that there may be ({MAX_CONTROLS:,} where all are controls)"
)

MAX_COST = MAX_ESCAPES * 5
_PIECE = 32 * 1024
_SHORT = b'"\\\b\t\n\f\r'
# Each byte is mapped to one with as many bits set as it costs: counting bits is ten times as fast as summing bytes.
_COSTS = bytes(0b11111 if byte in _SHORT else 0xFF if byte < 0x20 else 0 for byte in range(256))


def escape_cost(text: str) -> int:
    """The cost of escaping a text, in the unit of `MAX_COST`: 5 for a character that gets a backslash, 8 for others."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        # Most pieces of an answer have nothing to escape, and this test takes a fraction of the time of counting.
        return 0
    total = 0
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE].encode("utf-8", "surrogatepass")
        total += int.from_bytes(piece.translate(_COSTS), "little").bit_count()
    return total


def has_too_many_escapes(*texts: str) -> bool:
    """Whether these texts together cost more to escape than `MAX_COST`."""
    room = MAX_COST
    # Short texts cannot reach the limit, so they are not counted.
    if sum(map(len, texts)) <= MAX_CONTROLS:
        return False
    for text in texts:
        room -= escape_cost(text)
        if room < 0:
            return True
    return False


def has_long_text(value: Any, characters: int = LONG_CHARACTERS) -> bool:
    """Whether any string within the value has more than `characters` characters."""
    if isinstance(value, str):
        return len(value) > characters
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
