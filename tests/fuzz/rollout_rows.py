"""The rows of a session's record, as anybody may have written them (F-table: what is read is data)."""

from __future__ import annotations

import msgspec

from tertulia.protocol.events import AgentMessage, Event, TaskComplete, TaskStarted, TokenCount
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.records import ItemsRecord, QueuedInputRecord, Record, SubmissionRecord, ToolOutputRecord
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.row_reader import read_rows
from tertulia.rollout.store import StoredRow
from tests.rollout.recording import TASK, TRACE, A, agreed, assistant, call, event, model_request, output, user, written

_KINDS = (
    b"agreed",
    b"asked",
    b"drawn",
    b"ended",
    b"event",
    b"forked",
    b"noted",
    b"prompt",
    b"queued",
    b"rewritten",
    b"said",
)


def fuzz(data: bytes) -> None:
    """Every row comes to a line or to nothing, once, and each line can be written down."""
    seen: set[int] = set()
    for line in read_rows(filter(None, map(_row, data.split(b"\n")))):
        assert line.n not in seen
        seen.add(line.n)
        msgspec.json.encode(line.what)


def _row(text: bytes) -> StoredRow | None:
    """`n conversation task seq source kind type`, header and body, between tabs."""
    cells, _, rest = text.partition(b"\t")
    header, _, body = rest.partition(b"\t")
    match cells.decode("utf-8", "replace").split(" "):
        case [*texts, kind, type] if len(texts) == 5:
            numbers = [int(text) if text.isascii() and text.isdigit() else 0 for text in texts]
            n, conversation, task, seq, source = (min(number, 2**63 - 1) for number in numbers)
            place = (n, kind, type, 1.5 * n, seq or None, conversation, task)
            return StoredRow(*place, header, body or None, not header, source)
        case _:
            return None


def _seed(policy: StoragePolicy, *whats: Event | Record) -> bytes:
    rows = written(*whats, policy=policy)
    return b"\n".join(
        b"%d %d %d %d %d %b %b\t%b\t%b"
        % (
            *(row.n, row.conversation, row.task, row.seq or 0, row.source, row.kind.encode(), row.type.encode()),
            *(row.header, row.body or b""),
        )
        for row in rows
    )


_CONVERSATION: list[Event | Record] = [
    agreed(Full(), title="a title"),
    SubmissionRecord(A, TASK, TRACE, None),
    ItemsRecord(A, (user("hello", injected=True), user("and more")), pinned=True, seed=True),
    event(TaskStarted("user", "hel")),
    model_request(),
    ItemsRecord(A, (assistant("hm"), call())),
    event(AgentMessage("hm", ItemId("a1")), seq=2),
]
_CALLS: list[Event | Record] = [
    agreed(Full()),
    ItemsRecord(A, (call(),)),
    event(ToolCallBegin(CallId("c1"), "shell", {"x": 1}), seq=3),
    ToolOutputRecord(A, output("42", success=False)),
    event(ToolCallEnd(CallId("c1"), "shell", False, "42", True, 7), seq=4),
    QueuedInputRecord(A, user("wait", id="u3")),
    ItemsRecord(A, (output("42", success=False), user("wait", id="u3"))),
    event(TokenCount(NO_USAGE, 10, "key"), seq=5),
    event(TaskComplete("completed", "hm", NO_USAGE), seq=6),
]
SEEDS = [_seed(policy, *whats) for policy in (Full(), HeadersOnly()) for whats in (_CONVERSATION, _CALLS)]
WORDS = [
    *_KINDS,
    *(b'"same":true', b'"own":true', b'"of":', b'"i":', b'"ids":', b'"id":', b'"empty":true', b'"items":', b'"list":'),
    *(b"null", b"[]", b"{}", b"-1", b"9223372036854775807", b"18446744073709551616", b"1e308", b"\t", b"\n"),
]
