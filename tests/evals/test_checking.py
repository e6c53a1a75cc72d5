"""Issue 24, 7: checks run confined; one that always passes, always fails, hangs or floods is found out."""

from __future__ import annotations

from pathlib import Path

from tertulia.evals.selftest import check_suite
from tertulia.evals.suite import load_suite
from tests.evals.suites import SOUND, ConfinedChecks, write_task

_HIDES = """
from pathlib import Path
from eval_run import answer, calls, changed_files, conversations, original, status, workspace
import calc
assert calc.add(2, 3) == 5
assert changed_files() == ["calc.py"]
assert status == "completed" and workspace == Path.cwd() and original.joinpath("calc.py").read_text().count("-")
try:
    original.joinpath("calc.py").write_text("")
except OSError:
    pass
else:
    raise AssertionError("the task could be written")
assert (answer, calls, conversations) == ("five", [["shell", True]], [["helper", "yes"]])
"""
_FACTS = """
[reference]
answer = "five"
calls = ["shell"]
conversations = [{title = "helper", answer = "yes"}]
"""


async def test_the_self_test_tells_sound_checks_from_all_others(tmp_path: Path) -> None:
    """All of them in one confined start. What they may do, and see, is asked from inside."""
    suite = tmp_path / "suite"
    write_task(suite, "1-sound")
    write_task(suite, "2-passes", check="import calc\n")
    write_task(suite, "3-fails", check="raise AssertionError('never')\n")
    write_task(suite, "4-hangs", check="import time\ntime.sleep(600)\n", more="check_timeout_s = 0.2\n")
    write_task(suite, "5-floods", check=f"import sys\nfor _ in range(300): sys.stdout.write('x' * 9999)\n{SOUND}")
    write_task(suite, "6-leaves", check=f"import os, time\nif not os.fork():\n    time.sleep(600)\n{SOUND}")
    write_task(suite, "7-sees", check=_HIDES, more=_FACTS)
    # What the repository itself does is no verdict: it ends the process before the check is done.
    write_task(suite, "8-exits", solution="import os\nos._exit(0)\n")
    write_task(suite, "9-kills", solution="import os, signal\nos.kill(0, signal.SIGKILL)\n")
    checks = ConfinedChecks(tmp_path)
    async with checks as checker:
        reports = await check_suite(load_suite(suite), checker, checks.loaded.environment.variables)
    found = {report.task: report.soundness for report in reports}
    assert found == {
        "1-sound": "sound",
        "2-passes": "always passes",
        "3-fails": "always fails",
        "4-hangs": "broken",
        "5-floods": "sound",
        "6-leaves": "sound",
        "7-sees": "sound",
        "8-exits": "always fails",
        "9-kills": "always fails",
    }, [report for report in reports if report.soundness != "sound"]
    assert "never" in next(report.output for report in reports if report.task == "3-fails")
    assert all(len(report.output) < 10_000 for report in reports)
    assert not list(suite.rglob("__pycache__"))


async def test_a_solution_may_delete_files_and_may_be_a_patch(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    check = "from eval_run import workspace\nassert not (workspace / 'calc.py').exists()\n"
    write_task(suite, "delete", check=check, solution=None, more="[reference]\ndelete = ['calc.py']\n")
    patched = write_task(suite, "patch", solution=None, more="git = true\n")
    patched.joinpath("solution.patch").write_text(
        "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
    )
    checks = ConfinedChecks(tmp_path)
    async with checks as checker:
        reports = await check_suite(load_suite(suite), checker, checks.loaded.environment.variables)
    assert [report.soundness for report in reports] == ["sound", "sound"], reports
