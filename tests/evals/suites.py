"""Small suites and runs, written down for a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tertulia.evals.checking import Checker
from tertulia.evals.results import RunRecord
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.settings.settings import load_settings

SOUND = "import calc\nassert calc.add(2, 3) == 5, 'two and three'\n"


def write_task(
    suite: Path,
    name: str = "fix-add",
    *,
    prompt: str = "Mend add.",
    check: str = SOUND,
    more: str = "",
    solution: str | None = "def add(a, b):\n    return a + b\n",
) -> Path:
    """A task in which `add` subtracts."""
    folder = suite / name
    for part in ("repo", "check", "solution"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(f'kind = "fix"\nprompt = "{prompt}"\n{more}')
    (folder / "repo" / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "check" / "check.py").write_text(check)
    if solution is not None:
        (folder / "solution" / "calc.py").write_text(solution)
    return folder


def record(task: str = "a", outcome: str = "passed", **others: Any) -> RunRecord:
    """A run of the candidate `one`, unless it is said otherwise."""
    fields: dict[str, Any] = {"kind": "fix", "candidate": "one", "repeat": 1, "task_fingerprint": "v1", **others}
    fields.setdefault("candidate_fingerprint", f"fingerprint of {fields['candidate']}")
    return RunRecord(task=task, outcome=outcome, **fields)


class ConfinedChecks:
    """A checker with a sandbox of its own, for `async with`."""

    def __init__(self, folder: Path) -> None:
        self._sandbox = Sandbox(tier="auto", clock=SystemClock())
        self.loaded = load_settings(cwd=folder)

    async def __aenter__(self) -> Checker:
        return Checker(self._sandbox, self.loaded)

    async def __aexit__(self, *_: object) -> None:
        await self._sandbox.close()
