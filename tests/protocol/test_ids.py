"""Ids. That their kinds cannot be mixed up is checked in tests/typing/ids_are_not_interchangeable.py (S002-05)."""

from __future__ import annotations

import re
import uuid

from tertulia.protocol.ids import (
    new_conversation_id,
    new_item_id,
    new_session_id,
    new_span_id,
    new_task_id,
    new_trace_id,
)
from tests.tables import each_row


@each_row("new", [new_session_id, new_conversation_id, new_task_id])
def test_ids_of_sessions_conversations_and_tasks_are_random_uuids(new) -> None:
    """S002-05"""
    made = [new() for _ in range(1000)]
    assert len(set(made)) == 1000
    for text in made:
        parsed = uuid.UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 4, uuid.RFC_4122)


@each_row(("new", "digits"), [(new_item_id, 16), (new_trace_id, 32), (new_span_id, 16)])
def test_other_ids_are_random_hex_of_one_length(new, digits) -> None:
    made = [new() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(re.fullmatch(rf"[0-9a-f]{{{digits}}}", text) for text in made)
