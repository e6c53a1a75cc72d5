"""The file of a session as its owner uses it. Blocks; belongs to one thread at a time."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, Literal, ParamSpec, TypeVar

from tertulia.errors import StorageError
from tertulia.events.clock import Clock
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.sqlite import table
from tertulia.rollout.sqlite.database import (
    PATIENCE_S,
    JournalSize,
    blank,
    close_and_keep_journal,
    connect_owner,
    transaction,
)
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS, error_kind, explain, still_read_error
from tertulia.rollout.sqlite.file_identity import FileIdentity, lost_file_error
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.sqlite.index_file import mark_of, note_mark
from tertulia.rollout.sqlite.ownership import Ownership
from tertulia.rollout.sqlite.session_files import (
    SessionFiles,
    create_private,
    file_size,
    flush,
    is_local,
    make_sessions_folder,
)
from tertulia.rollout.store import Row, SweepResult, TtlAction

P = ParamSpec("P")
T = TypeVar("T")
Durability = Literal["normal", "full"]
"""`normal` survives the death of the process, `full` that of the machine."""

_NOT_THE_SAME = ("damaged", "unknown", "version", "missing")
"""What is wrong with a file that was ours a moment ago, and is not now."""
_log = logging.getLogger(__name__)


class OwnedFile:
    """Keeps records in a file; owner from the first call on.

    After an error nothing of that call is in the file, save for an erasure, which may be done in part and is taken
    up again by the next one, by `close` or by the next owner. On a full disk it goes on when there is room; when
    the disk failed to flush, or when the file is not there any more or not the same, it refuses everything ever after;
    after any other error it opens the file again.
    """

    def __init__(
        self, files: SessionFiles, clock: Clock, durability: Durability = "normal", *, create: bool = True
    ) -> None:
        self._files = files
        self._clock = clock
        self._durable = durability == "full"
        self._create = create
        self._ownership: Ownership | None = None
        self._connection: sqlite3.Connection | None = None
        self._head = Head([])
        self._identity: FileIdentity | None = None
        """Of the files as they were opened first and touched last; None before that."""
        self._broken: StorageError | None = None
        self._rests = False
        """Whether the files were closed as idle, and not used since."""
        self._unclean = False
        self.journal = JournalSize(durable=self._durable)
        self._is_local, self._is_patient = False, True
        """Whether its disk is this machine's; whether locks of other programs are waited for."""

    def claim(self) -> None:
        """Open the file, and make it if there is none. BusyError where another process owns it."""
        self._connected()

    def commit(self, rows: Sequence[Row]) -> None:
        """Add records, all or none."""
        connection = self._connected()
        self._look(FileIdentity.check, self._head)
        if room := self.journal.wanted_room:
            self.journal.lengthened(self._look(FileIdentity.make_room, room))
        try:
            with self._explained():
                self.journal.add(table.insert(connection, rows, self._head))
        finally:
            self._note(FileIdentity.note_commit)
        if self._durable:
            # The disk may have taken its time: what was deleted meanwhile is noticed now.
            self._look(FileIdentity.check, self._head)
        self.journal.is_begun = self._is_local

    def commit_at_once(self, rows: Sequence[Row]) -> bool:
        """Add records, all or none, if little is to be waited for. False: nothing was done, `commit` is to do it.

        For the loop's thread, while no other one uses the file. Adds only to files that are as `commit` left them;
        opens and moves nothing, waits for no lock, and leaves it to `commit` to explain an error. With durability
        "full" it waits for one flush, of a journal that has room: whether the disk is quick enough the caller knows.
        """
        connection, identity = self._connection, self._identity
        if connection is None or identity is None or not self.journal.only_grows or not identity.is_untouched():
            return False
        is_added = False
        try:
            if self._is_patient:
                _set_patience(connection, 0)
                self._is_patient = False
            self.journal.add(table.insert(connection, rows, self._head))
            is_added = True
        except STORAGE_EXCEPTIONS as error:
            if error_kind(error) == "flush":
                self._broken = explain(error, self._files.db)
        try:
            identity.note_commit()
            if is_added and self._durable and not identity.is_untouched():
                # As in `commit`: something happened to the files while the disk took its time.
                self._look(FileIdentity.check, self._head)
        except StorageError as error:
            self._broken = error
            return False
        return is_added

    def enforce(self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str]) -> None:
        """Erase what the policy forbids of a conversation, without a trace."""
        now = self._clock.now()
        self._erase(lambda db: table.erase(db, conversation, policy, skeleton, table.latest_time(db, now)))

    def sweep(self, now: float, action: TtlAction) -> SweepResult:
        """Erase what has expired, without a trace."""
        connection = self._connected()
        self._look(FileIdentity.check, self._head)
        with self._explained():
            due = table.next_due(connection, action)
        if due is None and not self._unclean:
            return SweepResult()
        swept = SweepResult()

        def expire(connection: sqlite3.Connection) -> int:
            nonlocal swept
            swept = table.expire(connection, table.latest_time(connection, now), action)
            return swept.bodies + swept.rows

        self._erase(expire)
        return swept

    def erase_bodies(self) -> int:
        """Erase every text, without a trace; how many there were."""
        return self._erase(table.erase_bodies)

    def checkpoint_if_grown(self) -> None:
        """Move what stands in the journal into the file once it is a lot. What goes wrong is logged, and remembered."""
        journal = self.journal
        if self._connection is None or not journal.is_grown:
            return
        journal.measured(file_size(self._files.wal))
        if not journal.is_grown:
            return
        journal.emptied()
        try:
            connection = self._connected()
            self._look(FileIdentity.check, self._head)
            try:
                with self._explained(), _impatient(connection):
                    # It does not wait for readers: it will be tried again.
                    _empty_journal(connection)
            finally:
                self._note(FileIdentity.note_checkpoint)
        except StorageError as error:
            _log.warning("the journal could not be moved into the file: %s", error.message)
        journal.checkpointed(file_size(self._files.wal))

    def let_go(self) -> None:
        """Close the files until the next call; the session stays owned. What goes wrong is logged, and remembered."""
        if self._connection is None or self._unclean:
            return
        try:
            self._look(FileIdentity.check, self._head)
            with self._explained():
                close_and_keep_journal(self._connection, self._files.db)
            self._connection, self._rests = None, True
            self.journal.is_begun, self._is_patient = False, True
            self._look(FileIdentity.note_rest)
        except StorageError as error:
            _log.warning("the files of an idle session could not be closed: %s", error.message)

    def close(self) -> None:
        """Leave the file tidy, and give up ownership, also where it raises. Whatever was committed is safe."""
        try:
            if self._rests or not self._is_patient:
                self._connected()
            if self._connection is not None:
                self._look(FileIdentity.check, self._head)
                if self._head.is_behind:
                    # The last records ended no task.
                    with self._explained(), transaction(self._connection):
                        self._head.write(self._connection)
                    self._head.add((), written=True)
                self._tidy(self._connection)
                note_mark(self._files.db, table.reached(self._connection))
            elif self._broken is not None and self._broken.detail["kind"] == "lost":
                raise self._broken
        finally:
            self._disconnect()
            if self._ownership is not None:
                self._ownership.release()
                self._ownership = None

    @property
    def is_open(self) -> bool:
        """Whether it holds descriptors of the session's files."""
        return self._connection is not None

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────

    def _connected(self) -> sqlite3.Connection:
        if self._broken is not None:
            self._disconnect()
            raise self._broken
        if self._connection is not None:
            if not self._is_patient:
                _set_patience(self._connection, PATIENCE_S)
                self._is_patient = True
            return self._connection
        return self._awoken() if self._rests else self._reopened()

    def _awoken(self) -> sqlite3.Connection:
        """Open what was let go: it must be the same files, and all in them that was (R1)."""
        is_known = self._look(FileIdentity.check_closed)
        try:
            with self._explained():
                connection = connect_owner(self._files.db, durable=self._durable, is_known=is_known)
                self._connection = connection
            with self._explained():
                self._identity = self._look(FileIdentity.opened_again, connection, self._head)
        except StorageError as error:
            self._disconnect()
            if error.detail["kind"] in _NOT_THE_SAME:
                self._broken = error = lost_file_error(self._files, str(self._files.db), "changed")
            raise error
        self._rests = False
        return connection

    def _reopened(self) -> sqlite3.Connection:
        with self._explained():
            if self._ownership is None:
                make_sessions_folder(self._files.home, durable=self._durable)
                self._ownership = Ownership.take(self._files)
            create = self._create and self._identity is None
            self._is_local = is_local(self._files.db.parent)
            connection = self._connection = _open(self._files, durable=self._durable, create=create)
            # A file that is opened again after an error must be the same one.
            former, self._identity = self._identity, FileIdentity(self._files, connection)
            self._look(FileIdentity.check_former, former)
            self._head = Head.of(connection, table.reached(connection) < mark_of(self._files.db))
            self._unclean = table.is_erasing(connection)
        if file_size(self._files.wal) or self._unclean:
            # Left by an owner that died. On a full disk, or while another process reads, it is left for another time.
            try:
                self._tidy(connection)
            except StorageError as error:
                if not self.is_open:
                    raise
                _log.warning("what a former owner left is not tidied up yet: %s", error.message)
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self.journal.is_begun, self._is_patient = False, True
        if connection is not None:
            connection.close()

    # ── what happens to files ────────────────────────────────────────────────────────────────────────────────

    def _look(self, act: Callable[Concatenate[FileIdentity, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Look at the files. Where they are lost, what is written from now on would be found by no reader."""
        assert self._identity is not None, "it was opened"
        try:
            return act(self._identity, *arguments, **named)
        except StorageError as error:
            if error.detail["kind"] == "lost":
                self._broken = error
                self._disconnect()
            raise

    def _note(self, act: Callable[[FileIdentity], None]) -> None:
        """Note a change of our own, also one that failed on the way, so that it is not taken for a foreign one."""
        if self._connection is not None:
            self._look(act)

    # ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────

    def _erase(self, act: Callable[[sqlite3.Connection], int]) -> int:
        connection = self._connected()
        self._look(FileIdentity.check, self._head)
        head = self._head
        try:
            with self._explained(), transaction(connection):
                counted = table.count(connection)
                touched = act(connection)
                if touched:
                    # By this the next process that opens the file knows that remains may be left.
                    table.mark_erasing(connection)
                if table.count(connection) != counted:
                    head = head.rebuilt(connection, counted)
                    head.write(connection)
                    head.add((), written=True)
        finally:
            self._note(FileIdentity.note_commit)
        self._head = head
        if touched or self._unclean:
            self._unclean = True
            self._tidy(connection)
        return touched

    def _tidy(self, connection: sqlite3.Connection) -> None:
        """Empty the journal; after an erasure, first rebuild the file: balancing may have left copies in its pages."""
        self.journal.emptied()
        try:
            with self._explained():
                if self._unclean:
                    connection.execute("VACUUM")
                    table.mark_erased(connection)
                    if _empty_journal(connection):
                        raise still_read_error(self._files.db)
                    if self._durable:
                        flush(self._files.wal)
                    self._unclean = False
                else:
                    with _impatient(connection):
                        _empty_journal(connection)
        finally:
            self._note(FileIdentity.note_checkpoint)

    # ── what can go wrong ────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except STORAGE_EXCEPTIONS as error:
            found = explain(error, self._files.db)
            if found.detail["kind"] == "flush":
                # What the kernel could not write it may have forgotten: no later success means anything.
                self._broken = found
            if found.detail["kind"] not in ("full", "busy"):
                self._disconnect()
            raise found from error


def _open(files: SessionFiles, *, durable: bool, create: bool) -> sqlite3.Connection:
    if create and not files.db.exists():
        with suppress(FileNotFoundError):
            files.unborn.unlink()
        create_private(files.unborn, blank(), durable=durable)
        files.unborn.rename(files.db)
        if durable:
            flush(files.db.parent)
    os.chmod(files.db, 0o600)
    return connect_owner(files.db, durable=durable)


def _empty_journal(connection: sqlite3.Connection) -> bool:
    """Move the journal into the file; returns whether a reader was in the way."""
    return bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])


@contextmanager
def _impatient(connection: sqlite3.Connection) -> Generator[None]:
    _set_patience(connection, 0)
    try:
        yield
    finally:
        _set_patience(connection, PATIENCE_S)


def _set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    """How long a lock of another program is waited for."""
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
