"""Boards of stored sessions at any record, for a person who moves back and forth in one.

A board is folded from the nearest checkpoint before the record, so a step costs one stretch between two of them. The
first look at the end of a record makes them all. Checkpoints have texts: they are dropped as soon as one of these texts
may not be read any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

import msgspec

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.rollout.sqlite.excerpts import ExcerptReader, ReadableTexts
from tertulia.rollout.sqlite.session_files import SessionFiles
from tertulia.session.board.recorded_board import fold_line
from tertulia.session.records.answers import RecordBoard
from tertulia.session.records.inputs import GetRecordBoard
from tertulia.session.records.pages import read_excerpt
from tertulia.session.records.untold_messages import UntoldMessages
from tertulia.view.board import Board
from tertulia.view.snapshot import read_snapshot, without_links, write_snapshot

_STRETCH = 500
"""So many events lie between two checkpoints."""
_CELLS = 500
"""Of each conversation in a checkpoint: what is older is not shown either, and only counted."""
MAX_SESSION_BYTES = 24 * 1024 * 1024
"""Of the checkpoints of one session. Where they have more, every second one is dropped: steps become longer."""
MAX_BYTES = 64 * 1024 * 1024
"""Of all of them. The session that was not looked at for longest goes first."""
_SETTLED_S = 2.0
"""Times of files are not exact: two writes in the same moment look like one."""
_BOARD_WEIGHT = 5
"""The memory of a board that is open, in sizes of its snapshot."""


FileVersion = tuple[tuple[int, int, int], ...]
"""Equal to an earlier one only where no process has written to the files in between."""


def file_version(files: SessionFiles) -> FileVersion | None:
    """Of a record as it is now; None where it was written so lately that its times cannot tell."""
    found: list[tuple[int, int, int]] = []
    for path in (files.db, files.wal):
        try:
            look = path.stat()
        except FileNotFoundError:
            continue
        if look.st_mtime > SystemClock().now() - _SETTLED_S:
            return None
        found.append((look.st_ino, look.st_size, look.st_mtime_ns))
    return tuple(found)


def _is_past(at: float | None) -> bool:
    return at is not None and SystemClock().now() >= at


class _Checkpoints:
    """The checkpoints of one session, and the board that was shown last."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._places: list[int] = [0]
        self._snapshots: list[bytes] = [write_snapshot(Board())]
        self._at, self._board = 0, Board()
        self._upto = 0
        self._readable = ReadableTexts()
        self._version: FileVersion | None = None

    @property
    def weight(self) -> int:
        """About how many bytes of memory they take."""
        return sum(map(len, self._snapshots)) + _BOARD_WEIGHT * len(self._snapshots[-1])

    def still_hold(self, reader: ExcerptReader, version: FileVersion | None) -> bool:
        """Whether every text in them may still be read."""
        if version is not None and version == self._version and not _is_past(self._readable.until):
            return True
        if reader.readable(self._upto) != self._readable:
            return False
        self._version = version
        return True

    def board(self, reader: ExcerptReader, at: int) -> Board:
        """The board after that record. It changes with the next call."""
        if at > self._upto:
            # Counted before it is read: what is erased meanwhile is noticed the next time.
            self._upto, self._readable, self._version = at, reader.readable(at), None
        place = bisect_right(self._places, at) - 1
        if not self._places[place] <= self._at <= at:
            self._at, self._board = self._places[place], read_snapshot(self._snapshots[place])
        timestamps = Timestamps(SystemClock())
        while self._at < at:
            found = reader.events_after(self._at, None, _STRETCH, upto=at)
            lines = list(read_excerpt(reader, found.numbers))
            older = UntoldMessages(self._session_id, reader.untold_messages(), lines)
            for line in lines:
                for message in older.events(line):
                    self._board.take(message)
                fold_line(self._board, line, timestamps)
            self._at = found.numbers[-1] if found.has_more else at
            if found.has_more and self._at > self._places[-1]:
                self._add_checkpoint()
        return self._board

    def _add_checkpoint(self) -> None:
        snapshot = write_snapshot(self._board, _CELLS)
        self._places.append(self._at)
        self._snapshots.append(snapshot)
        # So that a board does not grow with the record.
        self._board = read_snapshot(snapshot)
        if sum(map(len, self._snapshots)) > MAX_SESSION_BYTES and len(self._places) > 2:
            del self._places[1:-1:2], self._snapshots[1:-1:2]


class RecordBoards:
    """Bounded in bytes. Used in threads: one takes a session's checkpoints out, and puts them back when it is done."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Checkpoints] = OrderedDict()

    def read(self, reader: ExcerptReader, params: GetRecordBoard, version: FileVersion | None = None) -> RecordBoard:
        """The board at a record; at the last one where there are fewer. Blocks.

        `version`: of the file before the reader opened it.
        """
        last_n, _ = reader.ends()
        at = min(params.at_n, last_n)
        checkpoints = self._sessions.pop(params.session_id, None)
        if checkpoints is None or not checkpoints.still_hold(reader, version):
            checkpoints = _Checkpoints(params.session_id)
        board = checkpoints.board(reader, at)
        shown = msgspec.to_builtins(without_links(board, params.max_cells))
        self._put(params.session_id, checkpoints)
        return RecordBoard(params.session_id, at, board.epoch, board.seq, shown)

    def clear(self) -> None:
        """Forget the checkpoints of all sessions."""
        self._sessions.clear()

    @property
    def weight(self) -> int:
        """About how many bytes of memory all checkpoints take."""
        return sum(checkpoints.weight for checkpoints in list(self._sessions.values()))

    def _put(self, session_id: str, checkpoints: _Checkpoints) -> None:
        self._sessions[session_id] = checkpoints
        while len(self._sessions) > 1 and self.weight > MAX_BYTES:
            self._sessions.popitem(last=False)
