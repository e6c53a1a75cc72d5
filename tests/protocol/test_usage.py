"""Token counts."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.items import NO_USAGE, Usage

usages = st.builds(Usage, *[st.integers(0, 10**9)] * len(Usage.__struct_fields__))


def test_the_fields_are_those_of_the_contract_in_its_order() -> None:
    """S002-47: a reply carries its statistics."""
    assert msgspec.to_builtins(Usage(1, 2, 3, 4, 5)) == {
        "input_tokens": 1,
        "cached_input_tokens": 2,
        "output_tokens": 3,
        "reasoning_output_tokens": 4,
        "total_tokens": 5,
    }


@given(st.lists(usages))
def test_a_sum_adds_each_count_on_its_own(parts) -> None:
    total = msgspec.structs.astuple(sum(parts, NO_USAGE))
    columns = zip(*map(msgspec.structs.astuple, parts), strict=True) if parts else [()] * len(total)
    assert total == tuple(sum(column) for column in columns)
