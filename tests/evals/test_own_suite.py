"""Issue 24, 7: the suite of the source has at least 30 tasks of all kinds, and every check of it is sound."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tertulia.evals.selftest import check_suite
from tertulia.evals.suite import load_suite
from tests.evals.suites import ConfinedChecks

SUITE = Path(__file__).parents[2] / "evals"
KINDS = {
    "fix", "feature", "refactor", "find", "explain", "multi-file", "delegate", "refuse", "recover", "read-only",
}  # fmt: skip


async def test_every_check_of_our_suite_can_fail_and_can_pass(tmp_path: Path) -> None:
    suite = load_suite(SUITE)
    kinds = Counter(task.table.kind for task in suite.tasks)
    assert len(suite.tasks) >= 30
    assert kinds.keys() == KINDS
    assert min(kinds.values()) >= 3, "a kind with one task says little"
    assert all(task.table.sandbox == "read-only" for task in suite.tasks if task.table.kind == "read-only")
    checks = ConfinedChecks(tmp_path)
    async with checks as checker:
        reports = await check_suite(suite, checker, checks.loaded.environment.variables)
    assert [report for report in reports if report.soundness != "sound"] == []


def test_tasks_are_small() -> None:
    sizes = {task.id: sum(path.stat().st_size for path in task.folder.rglob("*")) for task in load_suite(SUITE).tasks}
    assert max(sizes.values()) < 64 * 1024, sizes
