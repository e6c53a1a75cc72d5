"""The official Codex SDK for Python, a client of `codex app-server`, with ours in its place, offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.installed import AGENTS
from tests.agents.provider import provider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SDK = AGENTS.parent / "python"
SCRIPT = Path(__file__).with_name("python_sdk_run.py")
TERTULIA = str(Path(sys.executable).with_name("tertulia"))


def test_threads_are_run_read_forked_put_away_and_resumed(tmp_path: Path) -> None:
    """Issue 10 (5): a real client; it validates each answer against its own generated types."""
    if not (SDK / "openai_codex").exists():
        pytest.skip("the Codex SDK for Python is not installed; `make agents` fetches it")
    with provider() as mock:
        config = tmp_path / ".config" / "tertulia" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(
            'allow_home_workspace = true\nmodel = "mock/mock"\n'
            f'[model_providers.mock]\nbase_url = "{mock.url}/v1"\nwire = "responses"\n'
        )
        text = json.dumps([[TERTULIA, "app-server", "--codex"], str(tmp_path), str(tmp_path)])
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(SDK)}
        command = [sys.executable, str(SCRIPT), text]
        ran = subprocess.run(command, env=env, capture_output=True, timeout=90, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
        hello, first, read, fork, listed, left, again, models = (json.loads(line) for line in ran.stdout.splitlines())
    assert hello["server"] == "tertulia"
    assert (first["answer"], first["tokens"]) == ("the-answer-number-1", 15)
    assert read["items"] == ["userMessage", "agentMessage"]
    assert fork["methods"][-1] == "turn/completed"
    assert listed["listed"] == sorted([first["id"], fork["fork"]])
    assert left["listed"] == [fork["fork"]]
    assert (again["id"], again["answer"]) == (first["id"], "the-answer-number-3")
    assert "mock/mock" in models["models"]
