"""What a recorder begins with."""

from __future__ import annotations

from tertulia.protocol.storage import Full
from tertulia.rollout.known import Known, KnownTalk


def test_of_a_record_that_is_empty_nothing_is_known() -> None:
    known = Known()

    assert (known.last_n, known.session_id, known.epoch, known.last_seq, known.talks) == (0, None, -1, 0, {})


def test_two_conversations_share_nothing() -> None:
    one, other = KnownTalk(1, Full()), KnownTalk(2, Full())
    one.tools["digest"] = (1, 1.0)

    assert other.tools == {}
