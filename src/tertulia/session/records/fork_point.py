"""Which conversation of a stored session a fork of it begins with. Blocks."""

from __future__ import annotations

from tertulia.rollout.loose_json import object_of, string_of
from tertulia.rollout.sqlite.excerpts import ExcerptReader
from tertulia.session.conversations import ROOT
from tertulia.session.records.inputs import ForkRecordParams
from tertulia.session.records.pages import find_conversation


def find_fork_conversation(reader: ExcerptReader, params: ForkRecordParams) -> str:
    """The one that is named, or that of the record; else the root. NotFound for one that is not in the record."""
    if params.conversation_id is not None:
        find_conversation(reader, params.conversation_id)
        return params.conversation_id
    rows = [] if params.n is None else reader.these([params.n])
    named = reader.these([row.conversation for row in rows if row.conversation])
    return next((id for row in named if (id := string_of(object_of(row.header).get("id"))) is not None), ROOT)
