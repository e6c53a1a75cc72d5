"""What the operations `record/*` answer."""

from __future__ import annotations

from typing import Any, Literal

from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.session.answers import Answer

NotStored = Literal["headers_only", "none", "expired"]
"""Why a text is not there: its policy keeps no texts, keeps nothing, or its time was over."""


class RecordSummary(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """One stored session in a list."""

    session_id: str
    title: str | None = None
    preview: str | None = None
    """The beginning of its first message."""
    cwd: str | None = None
    model: str | None = None
    started_at: str
    last_active_at: str
    conversations: int
    items: int
    tokens: int
    cost_usd: float | None = None
    """Of the requests whose price is known."""
    state: Literal["here", "elsewhere", "stored"]
    """It runs in this process, in another one, or in none."""
    storage: Literal["full", "partly", "none"]
    """Whether all texts are stored, or some conversation keeps less, or no text is there."""
    purpose: str | None = None
    """What it serves, where it is no session of a person."""
    error: str | None = None
    """Why it cannot be read."""


class RecordList(Answer, frozen=True):
    """`record/list`: one page of the stored sessions, the newest first."""

    records: list[RecordSummary]
    next: str | None
    """Where the next page begins; null on the last one."""


class RecordedEvent(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """An event of a record: its envelope as a client got it, its number, and what of it is not there."""

    n: int
    epoch: int
    seq: int | None
    ts: str
    type: str
    session_id: SessionId
    sub_id: str
    conversation_id: ConversationId | None
    task_id: TaskId | None
    trace_id: str | None
    span_id: str | None
    data: dict[str, Any]
    """As the page on events describes it for this type. A text that is not there is empty, or null."""
    not_stored: NotStored | None = None
    """Why texts of it are not there."""
    damaged: bool = False
    """Whether a part of it cannot be read."""
    copied: bool = False
    """Whether it stands for an item that the session had from the one that it is a fork of; it has no `seq`."""


class RecordPage(Answer, frozen=True):
    """`record/page`: events in the order in which they happened."""

    events: list[RecordedEvent]
    first_n: int | None
    """The first and the last record of the page; null for a page without any. `before_n` and `after_n` go on there."""
    last_n: int | None
    at_start: bool
    at_end: bool
    damaged: list[int]
    """Records of the page that cannot be read at all."""


class RecordBoard(Answer, frozen=True):
    """`record/board`: as `session/board`, at a record of the past."""

    session_id: str
    n: int
    """The record: the one that was asked for, or the last one."""
    epoch: int
    seq: int
    board: dict[str, Any]


class OutlinedConversation(Answer, frozen=True, omit_defaults=True):
    """A lane of the time line."""

    id: ConversationId
    parent_id: ConversationId | None
    opened_at: float
    """Seconds since 1970, as all times of an outline."""
    title: str | None = None
    """Null also where it is not stored."""
    closed_at: float | None = None
    model: str | None = None


class OutlinedSpan(Answer, frozen=True, omit_defaults=True):
    """A task, from its start to its end."""

    conversation_id: ConversationId
    task_id: TaskId | None
    kind: str
    start: float
    first_n: int
    last_n: int
    """Its end, or the last record that is known of it."""
    end: float | None = None
    """Null while it runs, and for one that a killed process left."""
    ending: str | None = None


class OutlinedMark(Answer, frozen=True, omit_defaults=True):
    """A moment in a lane: a call, a question to a person, or the answer."""

    conversation_id: ConversationId
    kind: Literal["call", "question", "yes", "no"]
    at: float
    n: int
    name: str = ""
    """Of a call the tool, where it is one that the model was offered; of a question its kind."""


class OutlinedArrow(Answer, frozen=True, omit_defaults=True):
    """One conversation asks another, or gets the answer back."""

    caller_id: ConversationId
    target_id: ConversationId
    at: float
    back: bool = False


class OutlinedRequest(Answer, frozen=True):
    """A request to a model; `record/prompt` shows what it saw."""

    n: int
    conversation_id: ConversationId
    task_id: TaskId | None
    at: float


class OutlinedPause(Answer, frozen=True):
    """A time in which no task ran."""

    start: float
    end: float


class OutlineCounts(Answer, frozen=True):
    """How much of what kind a record holds."""

    items: int
    requests: int
    calls: int
    failed_calls: int
    not_stored: int
    """Items whose text is not there."""


class RecordOutline(Answer, frozen=True):
    """`record/outline`: the time line of a session, made of headers alone."""

    session_id: str
    last_n: int
    first_ts: float | None
    last_ts: float | None
    conversations: list[OutlinedConversation]
    spans: list[OutlinedSpan]
    marks: list[OutlinedMark]
    arrows: list[OutlinedArrow]
    requests: list[OutlinedRequest]
    pauses: list[OutlinedPause]
    counts: OutlineCounts
    damaged: int
    """How many records of it cannot be read."""


class RecordedPart(Answer, frozen=True, omit_defaults=True, kw_only=True):
    """The instructions, the list of tools, or one item of a request."""

    index: int
    name: Literal["instructions", "tools", "item"]
    bytes: int
    digest: str
    """SHA-256, of instructions and tools as they were sent, of an item as it is stored."""
    type: str | None = None
    """Of an item: `user`, `assistant`, `reasoning`, `tool_call`, `tool_output` or `summary`."""
    role: str | None = None
    """Of an item: who wrote it, `user`, `assistant` or `tool`."""
    tool: str | None = None
    """Of a call: the name of the tool."""
    item_id: str | None = None
    text: str | None = None
    """As much of its text as this answer has; null where none of it is here."""
    text_offset: int = 0
    """Where that begins within the text of the part."""
    not_stored: NotStored | None = None
    """Why its text is not there."""


class PromptBefore(Answer, frozen=True):
    """The request of the same conversation before this one, compared with it."""

    n: int
    same_parts: int
    """How many parts at the beginning are the same: what a cache of the provider can have."""
    first_difference: int | None
    """The first part that differs or is new; null where nothing is."""
    removed_parts: int
    """How many parts the one before had that do not begin this one."""


class RecordedPromptAnswer(Answer, frozen=True):
    """`record/prompt`: a request to a model, made again from the record, and whether that is proved to be it."""

    n: int
    conversation_id: ConversationId
    at: str
    model: str
    verdict: Literal["same", "different", "unknown"]
    sentence: str
    parts: list[RecordedPart]
    """All of them with the first answer; with an `offset` those of which the answer has texts."""
    bytes: int
    digest: str
    """Of the whole request, as it was recorded."""
    cached_prefix_bytes: int
    """Of the parts that the request before began with, too."""
    before: PromptBefore | None
    next_offset: int | None
    """The `offset` of the next answer; null where all texts were given."""


class RecordHit(Answer, frozen=True):
    """A place in a stored session where a text was found."""

    session_id: str
    n: int
    conversation_id: str | None
    at: str
    type: str
    """The type of the item: `user`, `assistant`, `tool_call` …"""
    excerpt: str


class RecordHits(Answer, frozen=True):
    """`record/search`: places with a text, those of the newest session first."""

    hits: list[RecordHit]
    more: bool
    """Whether there may be more: the limit was reached, or 256 MB of texts were looked through."""


class RecordForkAnswer(Answer, frozen=True):
    """`record/fork`: the id of the new session, which `session/resume` brings to life."""

    session_id: str


class RecordDeleteAnswer(Answer, frozen=True):
    """`record/delete`: the id of the session that is gone."""

    session_id: str
