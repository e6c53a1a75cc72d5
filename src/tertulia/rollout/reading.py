"""From rows back to events and records. Reads what anybody may have written: nothing here trusts a row.

Rows are data. A row that makes no sense is counted and skipped, whatever is in it; a reference is looked up among the
rows before it and never followed further, so there are no cycles; numbers that a row claims are never allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tertulia.errors import AgentError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, SessionId, TaskId
from tertulia.protocol.items import Item, Summary, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.records import Agreed, Asked, Drawn, Ended, Forked, Queued, Record, Rewritten, Submitted
from tertulia.protocol.storage import NoStorage, storage_from_wire
from tertulia.protocol.tool_events import EVENT_TYPES
from tertulia.protocol.usage import Usage
from tertulia.rollout.compact import unpack, usual_prompt
from tertulia.rollout.headers import Layout, layout_of
from tertulia.rollout.item_rows import count, is_tag, join_item, synthetic_call_id
from tertulia.rollout.known import Known, KnownTalk
from tertulia.rollout.lines import Line, Segment
from tertulia.rollout.references import resolve
from tertulia.rollout.store import Stored

Json = dict[str, Any]
_decoder = msgspec.json.Decoder(Json)
_BROKEN = (
    msgspec.MsgspecError, AgentError, ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""All that taking apart what is not what it should be may raise. A broad catch would hide faults of our own."""


class _Scope(msgspec.Struct, frozen=True, gc=False):
    sub: str | None = None
    task: str | None = None
    trace: str | None = None
    span: str | None = None


_NO_SCOPE = _Scope()


class Reader:
    """Takes rows in order, gives lines, and learns on the way what there is."""

    def __init__(self) -> None:
        self.known = Known()
        self._talks: dict[int, ConversationId] = {}
        self._scopes: dict[int, _Scope] = {0: _NO_SCOPE}
        self._names: dict[int, Any] = {}
        self._terms: dict[int, Json] = {}
        self._items: dict[int, dict[int, Item]] = {}
        """Of each conversation, by row."""
        self._lost: dict[int, None] = {}
        """Rows of items that are placeholders."""
        self._lists: dict[tuple[int, str], bytes] = {}
        self._segment: Segment | None = None
        self._stamp = Timestamps(SystemClock()).at

    def lines(self, rows: Iterable[Stored]) -> Iterator[Line]:
        """All that the rows come to. What is appended in one go is read in one go: nothing is left half read."""
        for row in rows:
            yield from self._take(row)
        yield from self._finish()

    def _take(self, row: Stored) -> Iterator[Line]:
        if row.n <= self.known.last_n:
            return
        self.known.last_n = row.n
        try:
            header = None if row.damaged and not row.header else _decoder.decode(row.header)
            body = None if row.body is None else _decoder.decode(row.body)
        except _BROKEN:
            header = body = None
        if header is None:
            yield Line(row.n, row.ts, None, damaged=(row.n,))
            return
        if row.kind == "said":
            yield from self._said(row, header, body)
            return
        yield from self._finish()
        try:
            line = self._line(row, header, body)
        except _BROKEN:
            line = Line(row.n, row.ts, None, damaged=(row.n,))
        if line is not None:
            yield line

    def _line(self, row: Stored, header: Json, body: Json | None) -> Line | None:
        match row.kind:
            case "session":
                self.known.session_id = SessionId(_text(header, "id"))
                self.known.epoch = _int(header, "epoch")
                self.known.last_seq = 0
            case "talk":
                self._meet(row.n, header)
            case "scope":
                self._scopes[row.n] = _Scope(*unpack(header["ids"], 4))
            case "name":
                self._names[row.n] = header["is"]
            case "terms":
                if body is not None:
                    self._terms[row.n] = body
            case "event":
                return self._event(row, header, body)
            case _:
                return self._record(row, header, body)
        return None

    def _meet(self, talk: int, header: Json) -> None:
        """Learn which conversation a row names."""
        conversation = ConversationId(_text(header, "id"))
        self._talks[talk] = conversation
        self.known.talks[conversation] = KnownTalk(talk, NoStorage())

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _event(self, row: Stored, header: Json, body: Json | None) -> Line:
        kind = EVENT_TYPES.get(row.type)
        if kind is None:
            return Line(row.n, row.ts, None, raw=row)
        layout = layout_of(kind)
        fields = layout.blanks | layout.usual
        fields |= resolve(kind, header, self._items.get(row.talk, {}), self._lost)
        if layout.interned and "as" in header:
            fields |= zip(layout.interned, self._names.get(header["as"], ()), strict=False)
        for name in (*layout.header, *layout.offered):
            if name in header:
                fields[name] = header[name]
        if isinstance(usage := fields.get("usage"), list):
            fields["usage"] = Usage(*msgspec.convert(usage, tuple[int, int, int, int, int]))
        fields |= body or {}
        missing = self._is_missing(row, header, body, layout)
        event = self._enveloped(row, msgspec.convert(fields, kind))
        if row.seq is not None:
            self.known.last_seq = row.seq
        # What it points to may be damaged. Then the event is told all the same, without it.
        whole = row.scope in self._scopes and ("as" not in header or header["as"] in self._names)
        return _told(row if whole else replace(row, damaged=True), event, missing)

    def _is_missing(self, row: Stored, header: Json, body: Json | None, layout: Layout) -> bool:
        """Whether something is left open that neither the body nor a row referred to has said."""
        said = header.get("said")
        if said is not None and (said in self._lost or said not in self._items.get(row.talk, {})):
            return True
        if body is not None:
            return False
        covered = ("said" in header) * 2 + ("call" in header)
        unnamed = any(name not in header and name not in layout.defaults for name in layout.header)
        return unnamed or ("empty" not in header and len(layout.body) > covered)

    def _enveloped(self, row: Stored, data: EventData) -> Event:
        known, scope = self.known, self._scopes.get(row.scope, _NO_SCOPE)
        if known.session_id is None:
            raise LookupError("an event before its session")
        task = None if scope.task is None else TaskId(scope.task)
        return Event(
            epoch=known.epoch,
            seq=row.seq,
            ts=self._stamp(round(row.ts * 1000) / 1000 + 0.0004),
            type=row.type,
            session_id=known.session_id,
            sub_id=scope.sub or known.session_id,
            conversation_id=self._talks[row.talk] if row.talk else None,
            task_id=task,
            trace_id=scope.trace,
            span_id=scope.span,
            data=data,
        )

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────

    def _record(self, row: Stored, header: Json, body: Json | None) -> Line:
        if row.kind == "agreed" and row.talk not in self._talks:
            self._meet(row.talk, header)
        conversation = self._talks[row.talk]
        missing = False
        match row.kind:
            case "agreed":
                record, missing = self._agreed(conversation, row, header)
            case "ended" | "queued":
                item = self._item(row, header, body)
                missing = row.n in self._lost
                if row.kind == "ended":
                    record = Ended(conversation, _of(item, ToolOutput))
                else:
                    record = Queued(conversation, _of(item, UserMessage))
            case "forked":
                source = ConversationId(_text(header, "source"))
                record = Forked(conversation, source, _int(header, "items"))
            case "submitted":
                task, trace = unpack(header["ids"], 2)
                (message,) = unpack(header.get("message", (body or {}).get("message", (None,))), 1)
                fields = {"conversation_id": conversation, "task_id": task, "trace_id": trace, "message": message}
                record = msgspec.convert(fields, Submitted)
            case "rewritten":
                summary = _of(self._item(row, header, body), Summary) if row.type else None
                missing = row.n in self._lost
                shape = {"conversation_id": conversation, **header, "summary": None}
                record = replace(msgspec.convert(shape, Rewritten), summary=summary)
            case "drawn":
                fields = {**(body or {}), "conversation_id": conversation, "revision": header["revision"]}
                record, missing = msgspec.convert(fields, Drawn), body is None and "empty" not in header
            case "asked":
                record, missing = self._asked(conversation, row, header, body)
            case _:
                return Line(row.n, row.ts, None, raw=row)
        return _told(row, record, missing)

    def _agreed(self, conversation: ConversationId, row: Stored, header: Json) -> tuple[Agreed, bool]:
        storage = storage_from_wire(header["storage"])
        self.known.talks[conversation].storage = storage
        terms = self._terms.pop(_int(header, "terms"), None) if "terms" in header else None
        shape = {"rights": header["rights"], "place": header["place"], "terms": terms or {}}
        checked = msgspec.convert(shape, dict[str, Json])
        return Agreed(conversation, storage, **checked), terms is None and "empty" not in header

    def _asked(self, conversation: ConversationId, row: Stored, header: Json, body: Json | None) -> tuple[Asked, bool]:
        given = body or {}
        named = self._names[header["as"]] if "as" in header else given.get("as", ("", ""))
        instructions, tools = unpack(named, 2)
        (history,) = unpack(header.get("history", given.get("history", ("",))), 1)
        packed, schema = header.get("prompt", given.get("prompt")), given.get("output_schema")
        fields: Json = {
            "conversation_id": conversation,
            "task_id": self._scopes[row.scope].task,
            "instructions": instructions,
            "tools": tools,
            "history": history,
            "items": header["items"],
            "prompt": unpack(packed, 1)[0] if packed else "",
            "tools_json": "",
            "override": given.get("override"),
            "output_schema": schema,
            "summarises": header.get("of", ()),
        }
        asked = msgspec.convert(fields, Asked)
        if not packed:
            asked = replace(asked, prompt=usual_prompt(asked.instructions, asked.tools, asked.history, schema))
        listed = self._tool_list(asked, row, given)
        return replace(asked, tools_json=listed or b""), listed is None

    def _tool_list(self, asked: Asked, row: Stored, given: Json) -> bytes | None:
        """Written with the first request that had it."""
        key = (row.talk, asked.tools)
        if "list" in given or "tools_json" in given:
            raw = given["list"].encode() if "list" in given else msgspec.convert(given["tools_json"], bytes)
            self._lists[key] = raw
            self.known.talks[asked.conversation_id].tools[asked.tools] = (row.n, row.ts)
        return self._lists.get(key)

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────────

    def _said(self, row: Stored, header: Json, body: Json | None) -> Iterator[Line]:
        segment = self._segment
        if segment is None or not segment.takes(row, header):
            yield from self._finish()
            segment = self._segment = Segment(row, header)
        segment.next = count(header, "i") + 1
        try:
            self._add(segment, row, header, body)
        except _BROKEN:
            segment.damaged.append(row.n)
        if row.damaged:
            segment.damaged.append(row.n)
        if segment.next >= segment.of:
            yield from self._finish()

    def _add(self, segment: Segment, row: Stored, header: Json, body: Json | None) -> None:
        if not row.type and segment.of == 0:
            return
        items = self._items.setdefault(row.talk, {})
        same = header.get("same")
        if same is None:
            item = self._item(row, header, body)
        else:
            item = items[row.n] = items[same]
            if same in self._lost:
                self._lost[row.n] = None
        segment.items.append(item)
        if row.n in self._lost:
            segment.missing.append(row.n)
            segment.absent.append(len(segment.items) - 1)
        calls = self.known.talks[self._talks[row.talk]].calls
        if isinstance(item, ToolCall):
            calls[item.call_id] = row.n
        elif isinstance(item, ToolOutput):
            calls.pop(item.call_id, None)

    def _item(self, row: Stored, header: Json, body: Json | None) -> Item:
        if not is_tag(row.type):
            raise LookupError("no kind of item")
        items = self._items.setdefault(row.talk, {})
        item = items[row.n] = join_item(row.type, header, body, row.n, self._call_id(header, items))
        if body is None:
            self._lost[row.n] = None
        return item

    def _call_id(self, header: Json, items: dict[int, Item]) -> CallId | None:
        """Of an output. It must be the one its call is read back with, or they would be parted."""
        row = header.get("call")
        if type(row) is not int:
            return None
        call = items.get(row)
        return call.call_id if isinstance(call, ToolCall) else synthetic_call_id(row)

    def _finish(self) -> Iterator[Line]:
        segment, self._segment = self._segment, None
        if segment is not None:
            yield segment.line(self._talks.get(segment.first.talk))


def read(rows: Iterable[Stored]) -> Iterator[Line]:
    """The events and records of a session, oldest first. Use a `Reader` to go on later, or to learn what is known."""
    return Reader().lines(rows)


def _told(row: Stored, what: Event | Record, missing: bool) -> Line:
    rows = (row.n,)
    return Line(row.n, row.ts, what, rows if missing else (), damaged=rows if row.damaged else ())


def _text(header: Json, key: str) -> str:
    return msgspec.convert(unpack(header[key], 1)[0], str)


def _int(header: Json, key: str) -> int:
    return msgspec.convert(header[key], int)


def _of(item: Item, kind: type[Any]) -> Any:
    if not isinstance(item, kind):
        raise TypeError("another kind of item")
    return cast(Any, item)
