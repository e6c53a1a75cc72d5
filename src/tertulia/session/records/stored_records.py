"""Reads stored sessions for clients that only look: in threads, a few at a time, without owning any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.events.clock import Clock
from tertulia.rollout.sqlite.excerpts import ExcerptReader
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.rollout.sqlite.session_index import SessionEntry, find_files, find_session
from tertulia.scheduler.nursery import Nursery
from tertulia.session.records import inputs as i
from tertulia.session.records.answers import (
    RecordBoard,
    RecordedPromptAnswer,
    RecordHits,
    RecordList,
    RecordOutline,
    RecordPage,
)
from tertulia.session.records.boards import RecordBoards, file_version
from tertulia.session.records.fork_point import find_fork_conversation
from tertulia.session.records.listing import list_records
from tertulia.session.records.outline import read_outline
from tertulia.session.records.pages import read_page
from tertulia.session.records.prompts import read_recorded_prompt
from tertulia.session.records.search import search_records
from tertulia.session.records.turns import ReadingTurns

T = TypeVar("T")
KEEP_BOARDS_S = 120.0
"""How long checkpoints of boards are kept that no client asks for."""


class StoredRecords:
    """The stored sessions of one home. NotFound for a session that is not stored, StorageError for what is damaged."""

    def __init__(self, home: Path, clock: Clock, nursery: Nursery, here: Callable[[], Collection[str]]) -> None:
        """`here`: returns the ids of the sessions that run in this process."""
        self._home = home
        self._clock = clock
        self._here = here
        self._turns = ReadingTurns(nursery)
        self.boards = RecordBoards()
        self._drop: asyncio.TimerHandle | None = None

    async def list(self, params: i.ListRecords) -> RecordList:
        """One page of the list; a session that cannot be read says so in its entry."""
        return await self._turns.run(list_records, self._home, params, frozenset(self._here()))

    async def entry(self, session_id: str) -> SessionEntry:
        """What is known of a session without its texts."""
        return await self._turns.run(find_session, self._home, session_id)

    async def outline(self, params: i.RecordParams) -> RecordOutline:
        """The time line of a session."""
        return await self._read(params.session_id, read_outline, params.session_id)

    async def page(self, params: i.GetRecordPage) -> RecordPage:
        """Events of a session, from its end or from any place."""
        if sum(place is not None for place in (params.before_n, params.after_n, params.before_seq)) > 1:
            raise InvalidParamsError("give before_n, after_n or before_seq, and only one of them")
        return await self._read(params.session_id, read_page, params)

    async def prompt(self, params: i.GetRecordedPrompt) -> RecordedPromptAnswer:
        """What a model was sent with one request."""
        return await self._read(params.session_id, read_recorded_prompt, params)

    async def search(self, params: i.SearchRecords) -> RecordHits:
        """Places with a text, in one session or in all."""
        if params.session_id is not None:
            _check_id(params.session_id)
        return await self._turns.run(search_records, self._home, params)

    async def fork_conversation(self, params: i.ForkRecordParams) -> str:
        """The conversation that a fork begins with."""
        return await self._read(params.session_id, find_fork_conversation, params)

    async def board(self, params: i.GetRecordBoard) -> RecordBoard:
        """What a screen showed at a record of the past."""
        try:
            return await self._turns.run(self._read_board, params)
        finally:
            self._drop_later()

    async def _read(self, session_id: str, read: Callable[..., T], *args: Any) -> T:
        return await self._turns.run(self._open_and_read, session_id, read, args)

    def _read_board(self, params: i.GetRecordBoard) -> RecordBoard:
        _check_id(params.session_id)
        files = find_files(self._home, params.session_id)
        version = file_version(files)
        with closing(ExcerptReader(files.db, self._clock)) as reader:
            return self.boards.read(reader, params, version)

    def _open_and_read(self, session_id: str, read: Callable[..., T], args: tuple[Any, ...]) -> T:
        _check_id(session_id)
        with closing(ExcerptReader(find_files(self._home, session_id).db, self._clock)) as reader:
            return read(reader, *args)

    def _drop_later(self) -> None:
        if self._drop is not None:
            self._drop.cancel()
        self._drop = asyncio.get_running_loop().call_later(KEEP_BOARDS_S, self.boards.clear)


def _check_id(session_id: str) -> None:
    """What is no id never becomes a path."""
    if not is_session_id(session_id):
        raise NotFoundError(f"there is no session {session_id[:64]!r}: a session id is a UUID in small letters")
