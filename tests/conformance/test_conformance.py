"""The official conformance suite against our connections, where it is installed."""

from __future__ import annotations

import pytest

from tests.conformance.suite import ERAS, run, why_not

BESIDES_OAUTH = {"2025-11-25": 5, "2026-07-28": 8}


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("era", ERAS)
def test_every_scenario_passes_but_those_that_need_oauth(era: str) -> None:
    """X-23: the protocol as its authors check it, in both eras."""
    if reason := why_not():
        pytest.skip(reason)
    outcome = run(era)
    assert not outcome.surprises, outcome.output
    assert len(outcome.passed) >= BESIDES_OAUTH[era]
    assert all(name.startswith("auth/") for name in outcome.failed)
