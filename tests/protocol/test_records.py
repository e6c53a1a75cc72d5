"""What is remembered besides events."""

from __future__ import annotations

from typing import get_args

import msgspec

from tertulia.protocol.records import Record, message_key
from tests.tables import each_row


@each_row("kind", get_args(Record))
def test_records_are_frozen_and_name_their_conversation_first(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_fields__[0] == "conversation_id"


def test_a_message_id_is_known_by_its_key_and_cannot_be_read_from_it() -> None:
    """E1, R3: the id is the client's text. The same text leaves another digest in another session."""
    key = message_key("canary", "session")
    assert key == message_key("canary", "session") != message_key("canary ", "session")
    assert key != message_key("canary", "another session")
    assert len(key) == 32
    assert "canary" not in key
