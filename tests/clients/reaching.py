"""The two ways that a client reaches a real server, with a script that asks for an approval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deadlines import HANG_S

ROOT = Path(__file__).parents[2]
DEADLINE_S = HANG_S
SCRIPT = {
    "replies": [{"text": "", "tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "x"]}}]}, "done"],
}


def arguments(folder: Path) -> list[str]:
    """The flags of a server whose only reply needs an approval first."""
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return ["-m", f"scripted/{script}", "-a", "untrusted", "-s", "read-only", "-C", str(work)]


def app_server(folder: Path) -> list[str]:
    """The command of an app-server."""
    return [sys.executable, "-m", "tertulia", "app-server", *arguments(folder)]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """A `tertulia serve` for the block: its URL and its token."""
    command = [sys.executable, "-m", "tertulia", "serve", "--port", "0", *arguments(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=surroundings(folder)) as process:
        try:
            assert process.stdout is not None
            answer = json.loads(process.stdout.readline())
            yield answer["url"], Path(answer["token_file"]).read_text()
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def surroundings(folder: Path) -> dict[str, str]:
    """Variables with a home of its own."""
    return {**os.environ, "HOME": str(folder), "TERTULIA_HOME": str(folder / "data")}


def node_tool(name: str) -> Path:
    """A program of npm; the test is skipped where it was not fetched."""
    path = ROOT / ".venv/node/node_modules" / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: make node-tools")
    return path
