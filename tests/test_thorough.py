"""A sample is always the same, and whole in `make torture`; what grows there is found."""

from __future__ import annotations

import pytest

from tests import thorough


@pytest.mark.parametrize("everything", [False, True])
def test_a_sample_is_always_the_same_and_whole_in_torture(monkeypatch: pytest.MonkeyPatch, everything: bool) -> None:
    monkeypatch.setattr(thorough, "THOROUGH", everything)
    cases = list(range(1_000))
    some = thorough.sample(cases, 20)
    assert some == thorough.sample(cases, 20) == sorted(set(some))
    assert (some[0], some[-1], len(some)) == (0, 999, 1_000 if everything else 20)
    assert thorough.sample(cases[:3], 20) == [0, 1, 2]
    assert thorough.times(1_000, 50) == (1_000 if everything else 50)
    assert thorough.examples(2_000) == (2_000 if everything else 200)
    assert thorough.examples(100) == (100 if everything else 50)
    assert thorough.examples(20) == 20


def test_what_grows_is_a_storm_a_law_or_asks_for_a_size(request: pytest.FixtureRequest) -> None:
    assert thorough.grows(request.node) is False
    request.node.add_marker("torture")
    assert thorough.grows(request.node) is True
