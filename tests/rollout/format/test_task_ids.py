"""The ids of a task as a row has them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.ids import new_item_id, new_span_id, new_task_id, new_trace_id
from tertulia.rollout.format.earlier_rows import TaskIds, unpack_ids
from tertulia.rollout.format.written_rows import pack_key

OWN = (f"sub/{new_item_id()}", new_task_id(), new_trace_id(), new_span_id())


def test_ids_that_we_made_take_half_of_their_length() -> None:
    """Issue 21 (1): with them as they are, three turns of items of 1 KB did not fit into a page any more."""
    packed = pack_key(OWN)
    assert len(packed) == 64 < len("".join(OWN)) * 0.63
    assert unpack_ids(packed) == TaskIds(*OWN)


digits = st.text("0123456789abcdefABCDEF-", max_size=40)
ids = st.one_of(st.none(), st.text(max_size=40), digits, st.sampled_from(OWN), digits.map("sub/{}".format))


@given(st.tuples(ids, ids, ids, ids))
def test_any_ids_are_read_as_they_were_written(key: tuple[str | None, ...]) -> None:
    assert unpack_ids(msgspec.json.decode(msgspec.json.encode(pack_key(key)))) == TaskIds(*key)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    "change", [str.upper, lambda text: text + "0", lambda text: text[:-1] + "g", lambda text: None]
)
def test_what_is_not_quite_one_of_ours_stays_as_it_is(place: int, change) -> None:  # type: ignore[no-untyped-def]
    key = tuple(change(id) if number == place else id for number, id in enumerate(OWN))
    assert pack_key(key) == key
    assert unpack_ids(list(key)) == TaskIds(*key)


@pytest.mark.parametrize("wrong", ["x", "", "a" * 60, "a" * 68, "é" * 64, 7, {"a": 1}, [1]])
def test_what_are_no_ids_is_a_damaged_row(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_ids(wrong)
