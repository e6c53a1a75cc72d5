"""Ids and digests, short and long."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.ids import new_conversation_id, new_item_id, new_span_id, new_trace_id
from tertulia.rollout.format.id_packing import pack_ids, request_digest, unpack_ids
from tests.rollout.recording import SPAN, TASK, TRACE, ids
from tests.tables import each_row


def test_the_ids_of_a_task_are_one_short_string() -> None:
    given = ("sub/b7ad6b7169203331", TASK, TRACE, SPAN)
    packed = pack_ids(*given)

    assert isinstance(packed, str)
    assert len(packed) < sum(map(len, given)) * 0.7
    assert unpack_ids(packed, 4) == list(given)


@each_row(
    "given",
    [
        (f"conv/{TASK}", TASK, None, None),
        ("conv/None", None),
        ("conv/x", "x"),
        (None, None),
        ("0" * 16, "0" * 32, "0" * 64),
        ("a text",),
        ("conv/",),
        ("A" * 16,),
        ("sub/zzzzzzzzzzzzzzzz",),
        ("",),
        ("6F1C1D0E-7A55-4C3E-9B7E-2F6F0A1B2C3D",),
        (new_conversation_id(), new_item_id(), new_trace_id(), new_span_id()),
    ],
)
def test_ids_come_back_as_they_were(given: tuple[str | None, ...]) -> None:
    written = msgspec.json.decode(msgspec.json.encode(pack_ids(*given)))

    assert unpack_ids(written, len(given)) == list(given)


@given(st.lists(st.none() | ids, min_size=1, max_size=4))
def test_any_ids_come_back_as_they_were(given: list[str | None]) -> None:
    assert unpack_ids(pack_ids(*given), len(given)) == given


@each_row(
    ("packed", "count"),
    [("u.AAAA", 1), ("ss.AAAAAAAAAAA", 2), ("s.AAAAAAAAAAA", 2), ("", 1), ([], 1), (["a"], 2), ("?.", 1), ("c.", 1)],
)
def test_what_was_never_packed_is_refused(packed: object, count: int) -> None:
    """HARDENING E8"""
    with pytest.raises((ValueError, LookupError)):
        unpack_ids(packed, count)


@each_row("packed", [3, None, {"a": 1}, [1]])
def test_what_is_no_id_at_all_is_refused(packed: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        unpack_ids(packed, 1)


def test_the_digest_of_a_request_is_that_of_its_parts() -> None:
    """The same as `prompt/fingerprint` makes: then it need not be written."""
    schema = hashlib.sha256(b"{}").hexdigest()

    assert request_digest("a", "b", "c", "{}") == hashlib.sha256(f"a\nb\nc\n{schema}".encode()).hexdigest()
    assert request_digest("a", "b", "c", None) == hashlib.sha256(b"a\nb\nc\n").hexdigest()
