"""Issue 24, 7: the real Codex CLI, Claude Code and an ACP agent do a task of `tertulia eval`, and see no check."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli.main import main
from tertulia.evals.results import read_results
from tests.agents.acp_installed import REAL_ACP
from tests.agents.installed import REAL
from tests.agents.provider import Call, Provider, provider
from tests.evals.suites import write_task

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
MENDED = "def add(a, b):\n    return a + b\n"
CHECK = """
import pathlib
texts = [path.read_text() for path in map(pathlib.Path, ("calc.py", "new.py")) if path.exists()]
assert any("a + b" in text for text in texts), texts
"""
AGENTS = {
    "codex": ("executors.codex", REAL["codex"]),
    "claude": ("executors.claude", REAL["claude"]),
    "acp:codex": ("acp.codex", REAL_ACP["codex"]),
}


@pytest.fixture
def mock() -> Iterator[Provider]:
    with provider() as made:
        yield made


def flags(prefix: str, table: dict[str, Any]) -> Iterator[str]:
    """The table of an agent as flags of a command line."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flags(f"{prefix}.{name}", value)
        else:
            yield from ("-c", f"{prefix}.{name}={json.dumps(value)}")


WORKSPACE = re.compile(r"/[^\s\"\\\\]*/tertulia-eval-[^/\s\"\\\\]+/workspace")


def acts(backend: str, suite: Path) -> list[Call]:
    """What it is told to do: to look where the suite lies, and to mend the file, each by its own tools."""
    check = f"{suite}/a/check/check.py"
    if backend != "claude":
        look = f"cat {check}; ls -A {suite}; sed -i s/-/+/ calc.py; cat calc.py"
        return [lambda body: {"name": "exec_command", "arguments": {"cmd": look}}]

    def mend(body: str) -> dict[str, Any]:
        found = WORKSPACE.search(body)
        assert found is not None
        return {"name": "Write", "arguments": {"file_path": f"{found[0]}/new.py", "content": MENDED}}

    return [lambda body: {"name": "Read", "arguments": {"file_path": check}}, mend]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Not below /tmp, which the sandbox of Codex replaces, with what it has put into its home."""
    made = Path(tempfile.mkdtemp(prefix="home-of-an-agent-", dir=ROOT / ".venv"))
    monkeypatch.setenv("HOME", str(made / "home"))
    yield made / "home"
    shutil.rmtree(made)


@pytest.mark.parametrize("backend", AGENTS)
def test_a_real_agent_does_a_task_and_sees_no_check(
    backend: str,
    tmp_path: Path,
    home: Path,
    mock: Provider,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It looks where the suite lies, does what is asked, and is judged."""
    prefix, agent = AGENTS[backend]
    monkeypatch.chdir(tmp_path)
    table = agent.table(home, mock.url)
    suite = tmp_path / "suite"
    write_task(suite, "a", prompt="Mend add.", check=f"{CHECK}\n# two and three\n")
    (suite / "a" / "solution" / "new.py").write_text(MENDED)
    mock.calls += acts(backend, suite)
    words = ("--no-mcp", "--sandbox", "workspace-write", "--html", "page.html")
    code = main(["eval", "suite", "--backend", backend, *words, *flags(prefix, table)])
    shown = capfd.readouterr()
    (one,) = read_results(tmp_path / "eval-suite.jsonl")
    seen = "\n".join(mock.bodies)
    assert "Mend add." in seen
    assert "two and three" not in seen, "it has read the check"
    assert (code, one.outcome, one.confined) == (0, "passed", True), (one, shown, seen[-1500:])
    assert one.answer.startswith("the-answer-number-")
    assert one.calls >= 1
    assert one.session in (tmp_path / "page.html").read_text()
