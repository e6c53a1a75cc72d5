"""What a stored session was asked, which checkpoints it has, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from tertulia.errors import NotFoundError, StoragePolicyViolationError
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.policy.host_rules import NetworkRight
from tertulia.policy.orders import SANDBOX_ORDER
from tertulia.protocol.conversation_fields import SandboxMode
from tertulia.protocol.events import CheckpointEvent, Event, TaskStarted
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import AssistantMessage, ImagePart, Part, UserMessage, text_of
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import Full, StoragePolicy, Ttl, storage_to_wire, strictest
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.rollout.store import StoredRow
from tertulia.session.board.recorded_board import RecordedBoard
from tertulia.session.resume.recorded_state import RecordedState
from tertulia.session.resume.terms_codec import read_terms
from tertulia.view.board import Board


class StoredMessage(msgspec.Struct, frozen=True):
    """A message of a person to the root conversation."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def pictures(self) -> int:
        """How many pictures it has."""
        return sum(isinstance(part, ImagePart) for part in self.parts)


class RecordedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint before a task of the session, as its record has it."""

    id: str
    ts: str
    not_captured: tuple[str, ...]


class RepeatableSession(msgspec.Struct, frozen=True):
    """A stored session whose messages can be sent again."""

    id: str
    root_id: ConversationId
    model: str
    cwd: str
    messages: tuple[StoredMessage, ...]
    checkpoints: tuple[RecordedCheckpoint, ...]
    """In the order in which they were made."""
    storage: StoragePolicy
    """The strictest policy that its texts were stored under."""
    sandbox: SandboxMode
    """What its commands were allowed; at most to write the workspace."""
    network: NetworkRight
    """Which hosts they might reach, if any."""
    is_fork: bool
    """Whether it began with messages of another session."""
    board: Board
    """All that a screen would show of it."""


class _Record:
    """Reads the lines of a record once."""

    def __init__(self, timestamps: Timestamps) -> None:
        self.past = RecordedState()
        self.recorded = RecordedBoard(timestamps)
        self.messages: dict[ConversationId, list[StoredMessage | None]] = {}
        """None for one whose text is not there."""
        self.checkpoints: list[RecordedCheckpoint] = []
        self.is_fork = False
        self.has_gaps = False
        self._began = False
        self._last_n = 0

    def counted(self, rows: Iterable[StoredRow]) -> Iterator[StoredRow]:
        """The rows, while it is noticed whether there are any missing in between."""
        for row in rows:
            self.has_gaps |= row.n > self._last_n + 1
            self._last_n = row.n
            yield row

    def take(self, line: RecordLine) -> None:
        self.past.read((line,))
        self.recorded.take(line)
        match line.what:
            case Event(data=TaskStarted()):
                self._began = True
            case Event(data=CheckpointEvent(moment="before", cause="task") as made, ts=ts):
                self.checkpoints.append(RecordedCheckpoint(made.checkpoint_id, ts, tuple(made.not_captured)))
            case ItemsRecord() as record:
                self._take_items(record, line.absent)
            case _:
                pass

    def _take_items(self, record: ItemsRecord, absent: tuple[int, ...]) -> None:
        messages = self.messages.setdefault(record.conversation_id, [])
        for place, item in enumerate(record.items):
            self.is_fork |= isinstance(item, AssistantMessage) and not self._began
            if isinstance(item, UserMessage) and not item.injected:
                messages.append(None if place in absent else StoredMessage(item.parts))


def read_session(home: Path, session_id: str) -> RepeatableSession:
    """Read a stored session, without owning it. Blocks.

    Raises:
        StorageError: The record cannot be read.
        StoragePolicyViolationError: Texts of its messages are not stored, or not any more.
        NotFoundError: It was asked nothing.
    """
    record = _Record(Timestamps(SystemClock()))
    with closing(SqliteReader(find_files(home, session_id).db, SystemClock())) as rows:
        for line in RowReader().lines(record.counted(rows.rows())):
            record.take(line)
    _, root_id = record.past.identity()
    root = record.past.conversations[root_id]
    assert root.agreed is not None, "identity() has seen it"
    storage = root.agreed.storage if root.kept_by is None else strictest(root.agreed.storage, root.kept_by)
    messages = record.messages.get(root_id, [])
    is_cut = record.has_gaps and isinstance(storage, Ttl)
    if None in messages or is_cut or (not messages and storage != Full()):
        raise StoragePolicyViolationError(
            f"session {session_id} cannot be asked again: texts of its messages are not stored, or not any more "
            f"(storage_policy {storage_to_wire(storage)!r})"
        )
    if not messages:
        raise NotFoundError(f"session {session_id} was asked nothing: its record has no message of a person")
    terms = read_terms(root.agreed)
    return RepeatableSession(
        id=session_id,
        root_id=root_id,
        model=record.past.model or terms.model,
        cwd=terms.cwd or "",
        messages=tuple(message for message in messages if message is not None),
        checkpoints=tuple(record.checkpoints),
        storage=storage,
        sandbox=SANDBOX_ORDER.meet(terms.rights.sandbox, "workspace_write"),
        network=terms.rights.network,
        is_fork=record.is_fork,
        board=record.recorded.board,
    )
