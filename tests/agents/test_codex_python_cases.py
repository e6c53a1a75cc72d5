"""The promises of the official Codex SDK for Python to its users, with our program in the place of Codex, offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.case_provider import case_provider
from tests.agents.installed import AGENTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SDK = AGENTS.parent / "python"
SCRIPT = Path(__file__).with_name("python_sdk_cases.py")
TERTULIA = str(Path(sys.executable).with_name("tertulia"))
CONFIG = """
allow_home_workspace = true
model = "gpt-5.2"
model_provider = "mock"

[model_providers.mock]
name = "A provider as Codex spells it"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


def test_what_the_sdk_promises_holds_with_our_program(tmp_path: Path) -> None:
    """Issue 25 (1): each assertion of the SDK's own tests that depends on no login and no form of requests."""
    if not (SDK / "openai_codex").exists():
        pytest.skip("the Codex SDK for Python is not installed; `make agents` fetches it")
    work = tmp_path / "work"
    work.mkdir()
    with case_provider() as provider:
        config = tmp_path / ".config" / "tertulia" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG.format(url=provider.url))
        arguments = json.dumps([[TERTULIA, "app-server", "--codex"], str(work), str(tmp_path), provider.url])
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(SDK)}
        command = [sys.executable, str(SCRIPT), arguments]
        ran = subprocess.run(command, env=env, capture_output=True, timeout=150, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert len(ran.stdout.split()) == 18
