"""The parameters of the operations `record/*`. `session_id` names a stored session, which need not run here."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

RecordNumber = Annotated[int, Meta(ge=0, le=2**62)]


class ListRecords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/list`: stored sessions, the newest first."""

    query: Annotated[str, Meta(max_length=1_000)] | None = None
    """Only sessions with this text in title, first message, directory or model, or with an id that begins with it."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    before: Annotated[str, Meta(max_length=200)] | None = None
    """The `next` of the page before."""


class RecordParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/outline`: the time line of a stored session."""

    session_id: str


class GetRecordPage(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/page`: the last events of a stored session, or those before or after a record."""

    before_n: RecordNumber | None = None
    """Those before this record, the last of them."""
    after_n: RecordNumber | None = None
    """Those after this record, the first of them."""
    before_seq: RecordNumber | None = None
    """Those before the event of this number, the last of them. Only one of these three can be given."""
    conversation_id: str | None = None
    """Only events of this conversation; `root` is the first one of the session."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200


class GetRecordBoard(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/board`: what a screen showed when a record had been written."""

    at_n: RecordNumber
    max_cells: Annotated[int, Meta(ge=1, le=500)] = 500
    """The most cells of each conversation."""


class GetRecordedPrompt(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/prompt`: what a model was sent with one request."""

    n: RecordNumber
    """The record of the request, as `record/outline` lists it."""
    offset: RecordNumber = 0
    """How many characters of its texts to skip, because they were read before."""


class SearchRecords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/search`: texts of stored sessions."""

    query: Annotated[str, Meta(min_length=1, max_length=1_000)]
    session_id: str | None = None
    """Only in this session; None: in all of them."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class ForkRecordParams(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/fork`: a new stored session that begins as another one was."""

    n: RecordNumber | None = None
    """With what its conversation had said when this record was written; None: with all of it."""
    conversation_id: str | None = None
    """The conversation that becomes its root; None: that of record `n`, or the root."""


class DeleteRecord(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`record/delete`: delete a stored session for good, with what was recorded of files for it."""
