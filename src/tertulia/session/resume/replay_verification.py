"""Prompts, rebuilt from the record and compared with what was sent: the proof that the record is complete (S002-15).

Every request to a model left the digests of its parts (`ModelRequestRecord`). Here the same parts are made again from
what was written down before it, by the same code, and hashed. Nothing is run and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from tertulia.conversation.compaction import history_to_summarise
from tertulia.errors import TertuliaError
from tertulia.history.sanitiser import paired
from tertulia.history.segment import seal
from tertulia.history.view import NO_SEGMENTS, HistoryView, SegmentTotals
from tertulia.models.catalog import model_family
from tertulia.prompt.request import fingerprint_request, full_instructions
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import Item
from tertulia.protocol.records import ModelRequestRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedSegment, RecordedState
from tertulia.session.resume.terms_codec import read_terms

_REDACTED = b"[redacted:"


class RequestVerdict(msgspec.Struct, frozen=True):
    """What came of one request."""

    n: int
    """The number of the record in its session."""
    ts: float
    conversation_id: ConversationId
    task_id: TaskId
    outcome: Literal["same", "different", "unknown"]
    """`unknown`: not all of it is stored any more, or as it was."""
    because: str = ""
    """Which parts differ, or what is missing."""


def verify_requests(lines: Iterable[RecordLine]) -> Iterator[RequestVerdict]:
    """One verdict for each request, oldest first."""
    past = RecordedState()
    rebuilt: dict[ConversationId, RebuiltHistory] = {}
    for line in lines:
        request = line.what
        if isinstance(request, ModelRequestRecord):
            conversation = past.conversations.get(request.conversation_id) or RecordedConversation(
                request.conversation_id
            )
            history = rebuilt.setdefault(conversation.id, RebuiltHistory())
            yield verify_request(line, request, conversation, history, past.damaged)
        past.read((line,))


class RebuiltHistory:
    """The history of one conversation, sealed as far as it was read: what is added costs what is added."""

    def __init__(self) -> None:
        self._pieces: list[RecordedSegment] | None = None
        self._sealed = 0
        self._tally: SegmentTotals = NO_SEGMENTS

    def view(self, pieces: list[RecordedSegment]) -> HistoryView:
        """As it was when these were its pieces. Raises a TertuliaError for what cannot have been a history."""
        if pieces is not self._pieces:
            self._pieces, self._sealed, self._tally = pieces, 0, NO_SEGMENTS
        for piece in pieces[self._sealed :]:
            if piece.items:
                self._tally = self._tally.plus(seal(piece.items, pinned=piece.pinned))
            self._sealed += 1
        return HistoryView([], 0, self._tally, (), 0)


def verify_request(
    line: RecordLine,
    request: ModelRequestRecord,
    conversation: RecordedConversation,
    history: RebuiltHistory,
    damaged: int,
) -> RequestVerdict:
    """The verdict on one request. `damaged`: how many records before it cannot be read."""
    verdict = RequestVerdict(line.n, line.ts, request.conversation_id, request.task_id, "same")
    try:
        again = _rebuild_request(request, conversation, history)
    except TertuliaError as error:
        return msgspec.structs.replace(verdict, outcome="unknown", because=error.message)
    differing = _differences(request, again)
    if not differing:
        return verdict
    gaps = _gaps(line, request, conversation, damaged)
    outcome = "unknown" if gaps else "different"
    return msgspec.structs.replace(verdict, outcome=outcome, because=", ".join(gaps or differing))


def _rebuild_request(
    request: ModelRequestRecord, conversation: RecordedConversation, history: RebuiltHistory
) -> ModelRequestRecord:
    return fingerprint_request(
        (request.conversation_id, request.task_id),
        request_instructions(request, conversation),
        request.tools_json,
        _view(request, conversation, history),
        override=request.override,
        output_schema=request.output_schema,
    )


def request_instructions(request: ModelRequestRecord, conversation: RecordedConversation) -> str:
    """The instructions of a request, made again by the code that made them."""
    base, model = request.override, ""
    if conversation.agreed is not None:
        agreement = read_terms(conversation.agreed)
        base = agreement.base_instructions if base is None else base
        model = agreement.model
    model = request.model or model
    provider, _, name = model.partition("/")
    return full_instructions(base, _tool_names(request.tools_json), model_family(name) or provider)


def _tool_names(tools_json: bytes) -> frozenset[str]:
    """The names of the tools of a request, in whatever dialect they were sent."""
    try:
        tools = msgspec.json.decode(tools_json or b"[]", type=list[Any])
    except msgspec.DecodeError:
        return frozenset()
    return frozenset(name for tool in tools if isinstance(name := _tool_name(tool), str))


def _tool_name(tool: Any) -> object:
    match tool:
        case [name, *_] | {"name": name} | {"function": {"name": name}} | {"type": name}:
            return name
        case _:
            return None


def request_items(request: ModelRequestRecord, conversation: RecordedConversation) -> list[Item]:
    """The items that a request had, oldest first, as they are stored."""
    items = [item for piece in conversation.pieces for item in piece.items]
    if not request.summarises:
        return items
    return list(
        history_to_summarise([item for begin, end in request.summarises for item in items[begin:end]]).snapshot()
    )


def _view(request: ModelRequestRecord, conversation: RecordedConversation, history: RebuiltHistory) -> HistoryView:
    if not request.summarises:
        return history.view(conversation.pieces)
    items = [item for piece in conversation.pieces for item in piece.items]
    return history_to_summarise([item for begin, end in request.summarises for item in items[begin:end]]).snapshot()


def _differences(request: ModelRequestRecord, again: ModelRequestRecord) -> list[str]:
    """The parts that are not what they were; the prompt itself, where each of them is."""
    parts = [name for name in ("instructions", "tools", "history") if getattr(request, name) != getattr(again, name)]
    return parts or ([] if request.prompt == again.prompt else ["the form of the answer"])


def _gaps(line: RecordLine, request: ModelRequestRecord, conversation: RecordedConversation, damaged: int) -> list[str]:
    """Why the prompt cannot be rebuilt as it was."""
    missing = sum(len(piece.missing) for piece in conversation.pieces)
    expired = _expired(request, conversation)
    gaps = {
        "the instructions are not stored": conversation.agreed is None or not conversation.agreed.terms,
        "the list of tools is not stored": bool(line.missing),
        f"{missing} texts are not stored": missing > 0,
        f"{expired} items have expired": expired > 0,
        "secrets were redacted": _is_redacted(conversation.pieces) or _is_redacted_beside(request, conversation),
        f"{damaged + len(line.damaged)} records are damaged": damaged + len(line.damaged) > 0,
    }
    return [reason for reason, holds in gaps.items() if holds]


def _expired(request: ModelRequestRecord, conversation: RecordedConversation) -> int:
    """How many items of the request are gone whole, where its policy lets them go (`ttl_action = "delete"`).

    An output whose call has expired was not in it: a history is made whole when a session is resumed.
    """
    return max(0, request.items - len(paired(conversation.items)[0])) if conversation.may_expire else 0


def _is_redacted_beside(request: ModelRequestRecord, conversation: RecordedConversation) -> bool:
    """In what a request says besides its history."""
    own = None if conversation.agreed is None else conversation.agreed.terms.get("base_instructions")
    return any(_REDACTED in part for part in (request.tools_json, msgspec.json.encode((request.override, own))))


def _is_redacted(pieces: Sequence[RecordedSegment]) -> bool:
    return any(_REDACTED in msgspec.json.encode(piece.items) for piece in pieces)
