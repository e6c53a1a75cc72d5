"""The official conformance suite against our connections, where it is installed."""

from __future__ import annotations

import pytest

from tests.conformance.suite import ERAS, run, why_not

LOGINS = (
    "auth/basic-cimd",
    "auth/metadata-default",
    "auth/pre-registration",
    "auth/scope-step-up",
    "auth/authorization-server-migration",
    "auth/iss-wrong-issuer",
)
"""Those of each run; `make conformance` and the storm below have all."""
SCENARIOS = {"2025-11-25": (9, 19), "2026-07-28": (14, 33)}
"""How many at least pass with these logins, and with all."""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("era", ERAS)
def test_every_scenario_passes(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-23: the protocol as its authors check it, in both eras, with some of the logins."""
    if reason := why_not():
        pytest.skip(reason)
    monkeypatch.setenv("CONFORMANCE_LOGINS", "")
    outcome = run(era, LOGINS)
    assert not outcome.surprises, outcome.output
    assert len(outcome.passed) >= SCENARIOS[era][0]


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("era", ERAS)
def test_every_login_passes(era: str) -> None:
    """C15: OAuth as its authors check it: 14 scenarios in one era, 25 in the other."""
    if reason := why_not():
        pytest.skip(reason)
    outcome = run(era)
    assert not outcome.surprises, outcome.output
    assert len(outcome.passed) == SCENARIOS[era][1]
