"""Issue 24, 7: rates have an interval, and two results are compared by an exact test, in plain words."""

from __future__ import annotations

from math import comb

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.evals.comparison import compare, only_candidate
from tertulia.evals.statistics import sign_test, wilson_interval
from tertulia.evals.summary import summarise
from tests.evals.suites import record
from tests.tables import each_row


@each_row(
    "passed, total, low, high",
    # From the tables of Newcombe (1998) and Brown, Cai and DasGupta (2001).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718), (0, 0, 0, 1)],
)
def test_the_interval_is_wilsons(passed: int, total: int, low: float, high: float) -> None:
    assert wilson_interval(passed, total) == pytest.approx((low, high), abs=5e-5)


def test_the_sign_test_is_exact_and_does_not_care_which_side_won() -> None:
    for better in range(12):
        for worse in range(12):
            changed = better + worse
            as_uneven = [count for count in range(changed + 1) if abs(2 * count - changed) >= abs(better - worse)]
            expected = sum(comb(changed, count) for count in as_uneven) / 2**changed
            assert sign_test(better, worse) == pytest.approx(expected)


def _results(passed: str, candidate: str = "one") -> list:
    return [
        record(f"task-{at}", "passed" if sign == "+" else "wrong", candidate=candidate)
        for at, sign in enumerate(passed)
    ]


@each_row(
    "before, after, counts, odds, meaning",
    [
        (
            "+--",
            "++-",
            "1 task of 3 changed: 1 better, 0 worse.",
            "every time",
            "It takes at least 6 changed tasks to tell.",
        ),
        (
            "------",
            "++++++",
            "6 tasks of 6 changed: 6 better, 0 worse.",
            "3 times in 100",
            "B is better on these tasks.",
        ),
        ("+" * 12, "-" * 12, "12 tasks of 12 changed: 0 better, 12 worse.", "0.5 times in 1,000", "A is better"),
        ("++++---", "---++++", "6 tasks of 7 changed: 3 better, 3 worse.", "every time", "this may well be noise."),
    ],
)
def test_a_difference_is_called_noise_where_chance_explains_it(
    before: str, after: str, counts: str, odds: str, meaning: str
) -> None:
    verdict = compare(_results(before), _results(after), first_name="A", second_name="B").verdict()
    assert verdict.startswith(
        f"{counts} If both were equally good, chance alone would divide them so unevenly {odds}: "
    )
    assert meaning in verdict


def test_equal_results_are_said_to_be_equal() -> None:
    found = compare(_results("+-+"), _results("+-+"), first_name="A", second_name="B")
    assert (found.verdict(), found.chance) == ("No task changed, of 3.", 1.0)


def test_repeated_runs_count_as_one_task_and_other_versions_are_left_out() -> None:
    first = [record("a", "wrong", repeat=at) for at in (1, 2, 3)] + [record("b"), record("c", task_fingerprint="old")]
    second = [record("a", "passed" if at == 1 else "wrong", repeat=at) for at in (1, 2, 3)] + [record("c"), record("d")]
    found = compare(first, second, first_name="A", second_name="B")
    assert (found.tasks, found.left_out) == (1, ("b", "c", "d"))
    assert [(change.task, change.before, round(change.after, 2)) for change in found.better] == [("a", 0, 0.33)]
    with pytest.raises(InvalidParamsError, match="no task in common"):
        compare([record("a")], [record("b")], first_name="A", second_name="B")


def test_a_result_with_several_candidates_wants_one_named() -> None:
    records = [record("a"), record("a", candidate="two")]
    assert only_candidate(records, "file", "two")[1] == records[1:]
    with pytest.raises(InvalidParamsError, match=r"file: has 2 candidates \(one, two\); name one as file#CANDIDATE"):
        only_candidate(records, "file")
    with pytest.raises(InvalidParamsError, match="file: has no candidate 'three', only one, two"):
        only_candidate(records, "file", "three")


def test_a_sum_of_costs_is_unknown_as_soon_as_one_is() -> None:
    known, unknown = summarise([
        record("a", cost_usd=0.5, input_tokens=7, output_tokens=3, calls=2, duration_s=1.0),
        record("b", "wrong", cost_usd=0.25, duration_s=3.0, calls=1),
        record("a", candidate="two", cost_usd=0.5, confined=False),
        record("b", "timeout", candidate="two"),
    ])  # fmt: skip
    assert (known.cost_usd, known.tokens, known.calls, known.median_s, known.rate) == (0.75, 10, 3, 2.0, 0.5)
    assert (unknown.cost_usd, unknown.failures, unknown.confined) == (None, {"timeout": 1}, False)
