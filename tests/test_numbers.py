"""Every requirement and hardening case that has a test keeps one."""

from __future__ import annotations

from tests.numbers import findings, missing_tests, named, wanted

FINDINGS = {
    *(f"S{number}" for number in range(1, 11)),
    *(f"A{number}" for number in range(1, 7)),
    *(f"L{number}" for number in range(1, 9)),
    *("R1", "R2", "R3", "M1", "records", "MCP", "executors", "seeds"),
}
"""Issue 17: what broke under attack. Those without a number are known by where they were."""


def test_every_number_that_had_a_test_is_named_by_one() -> None:
    assert wanted()
    assert set(wanted()) - set(named()) == set(), "name the test that holds the promise now in its docstring"


def test_every_finding_has_a_test_that_there_is() -> None:
    assert {fact.split()[0] for fact, _ in findings()} == FINDINGS
    assert missing_tests() == [], "write the name of the test that fails without the fix into tests/findings.txt"
