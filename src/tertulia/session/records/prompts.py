"""One request of a stored session as it was sent, compared with the one before. Blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import NotFoundError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, Summary, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.storage import NoStorage, StoragePolicy, Ttl
from tertulia.rollout.format.item_rows import tag_of
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.loose_json import object_of, string_of
from tertulia.rollout.sqlite.excerpts import ExcerptReader
from tertulia.session.records.answers import NotStored, PromptBefore, RecordedPart, RecordedPromptAnswer
from tertulia.session.records.inputs import GetRecordedPrompt
from tertulia.session.resume.recorded_prompt import RecordedPrompt, read_prompts

TEXT_CHARACTERS = 256 * 1024
"""Of texts in one answer."""
_PLACEHOLDER = "row-"
"""With this begin the ids of items whose text is not stored."""
_encode = msgspec.json.Encoder().encode
_Part = tuple[RecordedPart, str]
"""A part without its text, and the text."""


def read_recorded_prompt(reader: ExcerptReader, params: GetRecordedPrompt) -> RecordedPromptAnswer:
    """The request that is asked for. NotFound where that record is none."""
    *earlier, prompt = _read(reader, params.n)
    parts = _parts(prompt)
    before = _compare(earlier[-1], parts) if earlier else None
    shown, next_offset = _with_texts(parts, params.offset)
    return RecordedPromptAnswer(
        n=params.n,
        conversation_id=prompt.request.conversation_id,
        at=Timestamps(SystemClock()).at(prompt.verdict.ts),
        model=prompt.model,
        verdict=prompt.verdict.outcome,
        sentence=prompt.sentence,
        parts=shown,
        bytes=sum(part.bytes for part, _ in parts),
        digest=prompt.request.prompt,
        cached_prefix_bytes=0 if before is None else sum(part.bytes for part, _ in parts[: before.same_parts]),
        before=before,
        next_offset=next_offset,
    )


def _read(reader: ExcerptReader, n: int) -> list[RecordedPrompt]:
    """The request, and before it the one before."""
    (row,) = reader.these([n]) or (None,)
    if row is None or row.kind != "asked":
        raise NotFoundError(f"record {n} is no request to a model")
    before = reader.request_before(n)
    numbers = [n] if before is None else [before, n]
    rows = reader.history_rows(_with_originals(reader, row.conversation), numbers)
    prompts = read_prompts(RowReader().lines(rows), numbers)
    if prompts[-1].verdict.outcome != "different":
        return prompts
    # Damage elsewhere in the file may be the reason, so the whole file is checked first.
    return read_prompts(RowReader().lines(reader.rows()), numbers)


def _with_originals(reader: ExcerptReader, conversation: int) -> set[int]:
    """A conversation, and those that it is a fork of: its history begins there."""
    forks = {row.conversation: string_of(object_of(row.header).get("from")) for row in reader.headers(["forked"])}
    found: set[int] = set()
    at: int | None = conversation
    while at is not None and at not in found:
        found.add(at)
        original = forks.get(at)
        at = None if original is None else reader.conversation(original)
    return found


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def _parts(prompt: RecordedPrompt) -> list[_Part]:
    request, why = prompt.request, _why(prompt.storage)
    instructions, tools = prompt.instructions.encode(errors="replace"), request.tools_json
    parts = [
        _text_part(0, "instructions", instructions, request.instructions, why),
        _text_part(1, "tools", tools, request.tools, why),
    ]
    for index, item in enumerate(prompt.items, len(parts)):
        parts.append(_item_part(index, item, why))
    return parts


def _text_part(index: int, name: Any, content: bytes, digest: str, why: NotStored) -> _Part:
    # Only parts whose digest matches: where a text is not stored, a placeholder is in its place.
    is_it = hashlib.sha256(content).hexdigest() == digest
    part = RecordedPart(index=index, name=name, bytes=len(content) if is_it else 0, digest=digest)
    return (part, content.decode(errors="replace")) if is_it else (replace(part, not_stored=why), "")


def _item_part(index: int, item: Item, why: NotStored) -> _Part:
    written = _encode(item)
    missing = item.id.startswith(_PLACEHOLDER)
    part = RecordedPart(
        index=index,
        name="item",
        bytes=0 if missing else len(written),
        digest=hashlib.sha256(written).hexdigest(),
        type=tag_of(item),
        role=_role(item),
        tool=item.name if isinstance(item, ToolCall) else None,
        item_id=item.id,
        not_stored=why if missing else None,
    )
    return part, "" if missing else _text(item)


def _text(item: Item) -> str:
    return item.arguments if isinstance(item, ToolCall) else item.text


def _role(item: Item) -> str:
    match item:
        case UserMessage() | Summary():
            return "user"
        case AssistantMessage() | Reasoning() | ToolCall():
            return "assistant"
        case ToolOutput():
            return "tool"


def _why(policy: StoragePolicy | None) -> NotStored:
    if isinstance(policy, Ttl):
        return "expired"
    return "none" if isinstance(policy, NoStorage) else "headers_only"


def _with_texts(parts: Sequence[_Part], offset: int) -> tuple[list[RecordedPart], int | None]:
    """The parts of an answer, with as much text as it may have; and where the next answer goes on."""
    shown: list[RecordedPart] = []
    start, end = 0, offset + TEXT_CHARACTERS
    for part, text in parts:
        piece_from, piece_to = max(0, offset - start), min(len(text), end - start)
        if piece_from < piece_to:
            shown.append(replace(part, text=text[piece_from:piece_to], text_offset=piece_from))
        elif offset == 0:
            is_empty = not text and part.not_stored is None
            shown.append(replace(part, text="") if is_empty else part)
        start += len(text)
    return shown, end if end < start else None


def _compare(before: RecordedPrompt, parts: Sequence[_Part]) -> PromptBefore:
    then, now = [part.digest for part, _ in _parts(before)], [part.digest for part, _ in parts]
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(then, now, strict=False))))
    return PromptBefore(before.verdict.n, same, same if same < len(now) else None, len(then) - same)
