"""The state of a session, read line by line from its record.

A fold over events and records. It opens no file, makes no conversation and publishes nothing: `rebuild` and
`close_open` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from tertulia.errors import StorageError
from tertulia.events.bus import EventScope
from tertulia.history.sanitiser import paired
from tertulia.history.shortening import shortened
from tertulia.protocol import events as e
from tertulia.protocol import records as r
from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import NO_USAGE, Item, ToolOutput, Usage, UserMessage
from tertulia.protocol.storage import StoragePolicy, Ttl, binding_policy
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    ExecCommandBegin,
    McpToolCallBegin,
    PatchApplyBegin,
    PlanUpdate,
    ToolCallBegin,
    ToolCallEnd,
)
from tertulia.rollout.format.row_reader import RecordLine
from tertulia.session.resume.cut_chain import CutChain, OpenQuestions


class RecordedSegment(msgspec.Struct, frozen=True):
    """One segment of a history, as it was said."""

    items: tuple[Item, ...]
    pinned: bool = False
    seed: bool = False
    missing: tuple[int, ...] = ()
    """Positions of items whose text was not stored: a placeholder stands in for each."""
    ts: float = 0.0
    """When it was written down."""


class StartedCall(msgspec.Struct, frozen=True):
    """A call that a task had begun to handle."""

    name: str
    scope: EventScope
    n: int


class RecordedConversation:
    """One conversation as it was when the record ends."""

    def __init__(self, id: ConversationId) -> None:
        self.id = id
        self.agreed: r.TermsRecord | None = None
        self.agreed_at = 0.0
        self.kept_by: StoragePolicy | None = None
        """The strictest policy that it had, where a looser one was agreed since."""
        self.pieces: list[RecordedSegment] = []
        self.queued: dict[ItemId, UserMessage] = {}
        """Accepted, and not yet seen by the model."""
        self.ended: dict[CallId, ToolOutput] = {}
        """Outputs that are not in the history yet."""
        self.ended_at: dict[CallId, float] = {}
        self.begun: dict[CallId, StartedCall] = {}
        """Calls that were handled and have no end."""
        self.answered: dict[CallId, StartedCall] = {}
        """Calls whose output, its text not kept, was said in the last task before their end was told."""
        self.ran = False
        """Whether the call that was begun last has started something."""
        self.questions = OpenQuestions()
        self.asks = False
        """Whether the one call that was begun waits for a person's answer, and nothing of it has started."""
        self.plan: PlanUpdate | None = None
        self.plan_at = 0.0
        """When it was first published; repeating it does not make it newer."""
        self.drawn: r.CanvasRecord | None = None
        """The last of its canvas."""
        self.notes: dict[str, r.NoteRecord] = {}
        """The last under each name."""
        self.native_session_is_stale = False
        """Whether the history was rewritten since that of its native session."""
        self.closed = False
        self.is_published = False
        """Whether clients were told of it: what the journal refused never existed."""
        self.tasks = 0
        self.active = 0.0

    @property
    def may_expire(self) -> bool:
        """Whether records of it may have gone whole, because their time was over."""
        policies = (self.kept_by, None if self.agreed is None else self.agreed.storage)
        return any(isinstance(policy, Ttl) for policy in policies)

    @property
    def items(self) -> list[Item]:
        """Every item that is still part of the history."""
        return [item for piece in self.pieces for item in piece.items]


class UnfinishedTask(msgspec.Struct, frozen=True):
    """A task that was begun, or accepted, and has no end."""

    scope: EventScope
    n: int


class RecordedChain:
    """What one message caused, for a client that asks again under the same message id."""

    def __init__(self, submitted: r.SubmissionRecord, started: float) -> None:
        self.conversation_id = submitted.conversation_id
        self.task_id = submitted.task_id
        self.trace_id = submitted.trace_id
        self.message = submitted.message
        self.started = self.ended = started
        self.usage: Usage = NO_USAGE
        self.tool_calls = 0
        self.error: e.ErrorEvent | None = None
        self.end: e.TaskComplete | e.TurnAborted | None = None
        """Of the last task of the conversation that the message went to; None while it goes on."""
        self.text_is_missing = False
        """Whether that end had a text that was not stored, or is not there any more."""


class RecordedState:
    """All that is known of a session after reading its record."""

    def __init__(self) -> None:
        self.session_id: SessionId | None = None
        self.epoch = 0
        self.last_seq = 0
        self.root_id: ConversationId | None = None
        self.model: str | None = None
        self.conversations: dict[ConversationId, RecordedConversation] = {}
        """By creation, closed ones too."""
        self.unfinished: dict[TaskId, UnfinishedTask] = {}
        self._ended: set[TaskId] = set()
        """Tasks with a terminal event: a client that repeats its message may be noted after it."""
        self.chains: dict[str, RecordedChain] = {}
        """By trace; of messages that had an id."""
        self.spent: tuple[int, float] = (0, 0.0)
        """Tokens and US dollars of all its requests, where they were asked for."""
        self.cut: dict[str, CutChain] = {}
        """By trace; of messages whose steps were written down, because they go on after a crash."""
        self.damaged = 0
        self.missing_records = 0
        """How many records are missing, by what the head of the file says; -1: that is not known."""

    def identity(self) -> tuple[SessionId, ConversationId]:
        """The ids of the session and of its root; StorageError where the record does not even say that."""
        root = None if self.root_id is None else self.conversations.get(self.root_id)
        if self.session_id is None or self.root_id is None or root is None or root.agreed is None:
            raise StorageError("the record does not say how the session began; what is left can be exported")
        return self.session_id, self.root_id

    def without_end(self, conversation: RecordedConversation) -> dict[CallId, StartedCall]:
        """The calls of a conversation whose end no client was told, as far as can be known.

        Where no task is unfinished, the end of a call that was answered has been told: some policies do not keep it.
        """
        unfinished = any(task.scope.conversation_id == conversation.id for task in self.unfinished.values())
        return {**conversation.begun, **conversation.answered} if unfinished else conversation.begun

    def read(self, lines: Iterable[RecordLine]) -> RecordedState:
        """Take in all lines; itself."""
        for line in lines:
            self.damaged += len(line.damaged)
            if isinstance(line.what, Event):
                self._hear(line.what, line)
            elif line.what is not None:
                self._take(line.what, line)
        return self

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, record: r.Record, line: RecordLine) -> None:
        conversation = self._conversation(record.conversation_id)
        conversation.active = line.ts
        match record:
            case r.TermsRecord():
                _apply_terms(conversation, record, line)
            case r.ForkRecord(source=source):
                origin = self._conversation(source)
                conversation.pieces, conversation.kept_by = _forked_pieces(record, origin), origin.kept_by
            case r.ItemsRecord():
                self._say(conversation, record, line)
            case r.ToolOutputRecord(output=output):
                conversation.ended[output.call_id], conversation.ended_at[output.call_id] = output, line.ts
            case r.QueuedInputRecord(message=message):
                conversation.queued[message.id] = message
            case r.RewriteRecord():
                conversation.native_session_is_stale = True
                _apply_rewrite(conversation, record, line)
            case r.SubmissionRecord() | r.PlanRecord():
                self._submit(record, line)
            case r.CanvasRecord():
                conversation.drawn = record
            case r.NoteRecord(name=name):
                conversation.notes[name] = record
                conversation.native_session_is_stale = conversation.native_session_is_stale and name != r.NATIVE_SESSION
            case _:
                pass

    def _say(self, conversation: RecordedConversation, record: r.ItemsRecord, line: RecordLine) -> None:
        conversation.pieces.append(RecordedSegment(record.items, record.pinned, record.seed, line.absent, line.ts))
        for at, item in enumerate(record.items):
            if isinstance(item, UserMessage):
                conversation.queued.pop(item.id, None)
            elif isinstance(item, ToolOutput):
                conversation.ended.pop(item.call_id, None)
                # Where the output's text is kept so is its end: what is not there was never told.
                if at in line.absent and (started := conversation.begun.pop(item.call_id, None)) is not None:
                    conversation.answered[item.call_id] = started

    def _submit(self, submitted: r.SubmissionRecord | r.PlanRecord, line: RecordLine) -> None:
        if isinstance(submitted, r.PlanRecord):
            self.cut.setdefault(submitted.trace_id, CutChain(submitted.trace_id)).plan(submitted, line)
            return
        scope = EventScope("", submitted.conversation_id, submitted.task_id, submitted.trace_id)
        if submitted.task_id not in self._ended:
            self.unfinished.setdefault(submitted.task_id, UnfinishedTask(scope, line.n))
        if submitted.message is not None:
            self.chains.setdefault(submitted.trace_id, RecordedChain(submitted, line.ts))

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, event: Event, line: RecordLine) -> None:
        self.epoch = max(self.epoch, event.epoch)
        self.last_seq = max(self.last_seq, event.seq or 0)
        if isinstance(event.data, e.SessionConfigured):
            self.session_id = event.session_id
            self.root_id, self.model = event.data.root_conversation_id, event.data.model
        if event.conversation_id is not None:
            self._hear_of(self._conversation(event.conversation_id), event, line)
        if event.trace_id is not None and (chain := self.chains.get(event.trace_id)):
            _apply_chain_event(chain, event, line)
        if self.cut and event.trace_id is not None and (cut := self.cut.get(event.trace_id)):
            cut.hear(event, line)
            if event.conversation_id is not None:
                self.conversations[event.conversation_id].questions.hear(event.data)

    def _hear_of(self, conversation: RecordedConversation, event: Event, line: RecordLine) -> None:
        scope = EventScope(event.sub_id, event.conversation_id, event.task_id, event.trace_id, event.span_id)
        match event.data:
            case e.TaskStarted() if event.task_id is not None:
                self.unfinished[event.task_id] = UnfinishedTask(scope, line.n)
                conversation.tasks += 1
                conversation.answered.clear()
            case e.TaskComplete() | e.TurnAborted() if event.task_id is not None:
                self.unfinished.pop(event.task_id, None)
                self._ended.add(event.task_id)
            case e.ConversationOpened():
                conversation.is_published = True
            case e.ConversationClosed():
                conversation.closed = True
            case PlanUpdate() if event.data != conversation.plan:
                conversation.plan, conversation.plan_at = event.data, line.ts
            case _:
                _apply_call_event(conversation, event, scope, line)
        conversation.active = line.ts

    def _conversation(self, id: ConversationId) -> RecordedConversation:
        conversation = self.conversations.get(id)
        if conversation is None:
            conversation = self.conversations[id] = RecordedConversation(id)
        return conversation


def _apply_terms(conversation: RecordedConversation, record: r.TermsRecord, line: RecordLine) -> None:
    if conversation.agreed is not None:
        conversation.kept_by = binding_policy(conversation.kept_by, conversation.agreed.storage, record.storage)
    conversation.agreed, conversation.agreed_at = record, line.ts
    conversation.notes.pop(r.NATIVE_SESSION, None)


def _apply_call_event(conversation: RecordedConversation, event: Event, scope: EventScope, line: RecordLine) -> None:
    match event.data:
        case ToolCallBegin(call_id=call_id, name=name):
            conversation.begun[call_id] = StartedCall(name, scope, line.n)
            conversation.ran = conversation.asks = False
        case ToolCallEnd():
            ended = _call_of_end(conversation, event, event.data, line)
            conversation.begun.pop(ended, None)
            conversation.answered.pop(ended, None)
        case ExecCommandBegin() | McpToolCallBegin() | PatchApplyBegin():
            conversation.ran = True
        case ApprovalRequest() | ApprovalResolved():
            conversation.asks = (
                isinstance(event.data, ApprovalRequest) and not conversation.ran and len(conversation.begun) == 1
            )
        case _:
            pass


def _call_of_end(conversation: RecordedConversation, event: Event, end: ToolCallEnd, line: RecordLine) -> CallId:
    """The call that an end is of. One told by a later task or process, its text not stored, has lost the call's id."""
    if end.call_id in conversation.begun or not line.missing:
        return end.call_id
    answered = (id for id, started in conversation.answered.items() if started.name == end.name)
    alike = (
        id
        for id, started in conversation.begun.items()
        if (started.name, started.scope.task_id) == (end.name, event.task_id)
    )
    return next(answered, next(alike, end.call_id))


def _apply_chain_event(chain: RecordedChain, event: Event, line: RecordLine) -> None:
    match event.data:
        case e.TaskStarted():
            chain.end = None
        case e.TaskComplete():
            chain.usage += event.data.usage
        case e.ErrorEvent():
            chain.error = event.data
        case ToolCallBegin():
            chain.tool_calls += 1
        case _:
            pass
    own = event.conversation_id == chain.conversation_id
    if own and isinstance(event.data, e.TaskComplete | e.TurnAborted):
        replaced = isinstance(event.data, e.TurnAborted) and event.data.reason == "replaced"
        chain.end, chain.ended = None if replaced else event.data, line.ts
        chain.text_is_missing = isinstance(event.data, e.TaskComplete) and bool(line.missing)


def first_items(count: int, pieces: Iterable[RecordedSegment]) -> list[RecordedSegment]:
    """The pieces that hold the first items; the last one may be cut."""
    taken: list[RecordedSegment] = []
    for piece in pieces:
        if count <= 0:
            break
        missing = tuple(at for at in piece.missing if at < count)
        taken.append(RecordedSegment(piece.items[:count], piece.pinned, piece.seed, missing, piece.ts))
        count -= len(piece.items)
    return taken


def _forked_pieces(fork: r.ForkRecord, origin: RecordedConversation) -> list[RecordedSegment]:
    # Those that have expired were the oldest, and an output without its call was not there any more.
    pieces = _paired_pieces(origin.pieces) if origin.may_expire else origin.pieces
    gone = max(0, fork.total - sum(len(piece.items) for piece in pieces))
    return first_items(fork.items - gone, pieces)


def _paired_pieces(pieces: Sequence[RecordedSegment]) -> list[RecordedSegment]:
    whole = {id(item) for item in paired(item for piece in pieces for item in piece.items)[0]}
    if len(whole) == sum(len(piece.items) for piece in pieces):
        return list(pieces)
    return [_only(piece, [at for at, item in enumerate(piece.items) if id(item) in whole]) for piece in pieces]


def _only(piece: RecordedSegment, places: list[int]) -> RecordedSegment:
    """The segment with the items at these places alone."""
    missing = tuple(new for new, at in enumerate(places) if at in piece.missing)
    return replace(piece, items=tuple(piece.items[at] for at in places), missing=missing)


def _apply_rewrite(conversation: RecordedConversation, done: r.RewriteRecord, line: RecordLine) -> None:
    """Lay the pieces as the rewrite did. A record that lost lines may name places that are not there."""
    # Those that have expired were the oldest.
    gone = max(0, done.total - len(conversation.pieces))
    for at in done.shortened:
        if 0 <= at - gone < len(conversation.pieces):
            piece = conversation.pieces[at - gone]
            conversation.pieces[at - gone] = replace(piece, items=shortened(piece.items, done.shortened_to))
    places = [at - gone for at in done.kept]
    remaining = [conversation.pieces[at] for at in places if 0 <= at < len(conversation.pieces)]
    place = max(0, done.place - (len(places) - len(remaining)))
    missing = (0,) if line.missing else ()
    summary = [] if done.summary is None else [RecordedSegment((done.summary,), missing=missing, ts=line.ts)]
    conversation.pieces = [
        *remaining[:place],
        *summary,
        *remaining[place:],
        *conversation.pieces[max(done.end - gone, 0) :],
    ]
