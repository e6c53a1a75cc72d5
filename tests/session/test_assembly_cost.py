"""How much of the source takes part when a session is assembled and when `exec "hi"` is answered.

A reader who follows a message reads these files; a session that has no MCP servers, agents, executors or commands does
not make them. Where a number is too high, the list shows what has joined: make it on first use (`session/parts.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import HANG_S

PROGRAM = Path(__file__).parent / "assembly_cost.py"
ASSEMBLY_FILES = 70
MESSAGE_FILES = 101
EXEC_FILES = 110
MODULES = 276
EXEC_MODULES = 297
OBJECTS = 77
"""Twenty of them stand for a tool each, which is made when it is called."""


_OTHER_WAYS = ("TERTULIA_", "EXECUTOR_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
"""With these begin the variables that make a session read or do more."""


def measure(home: Path, *arguments: str) -> dict[str, Any]:
    workspace = home / "work"
    workspace.mkdir(parents=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.upper().startswith(_OTHER_WAYS)},
        "HOME": str(home),
        "TERTULIA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
    }
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def hold(what: str, listed: dict[str, Any] | list[str], most: int) -> None:
    if len(listed) > most:
        lines = [f"{name}: {value}" for name, value in listed.items()] if isinstance(listed, dict) else listed
        pytest.fail("\n".join([*lines, "", f"{len(listed)} {what}, at most {most}"]), pytrace=False)


def test_a_session_is_assembled_from_few_files_and_objects(tmp_path: Path) -> None:
    """Issue 18 (3): what a session does not need is not made."""
    cost = measure(tmp_path, "session")
    hold("files run a function while a session is assembled", cost["assembly"], ASSEMBLY_FILES)
    hold("files run a function from the message to the wire and back", cost["all"], MESSAGE_FILES)
    hold("modules are imported", cost["modules"], MODULES)
    objects = [name for name, count in sorted(cost["objects"].items()) for _ in range(count)]
    hold("objects of ours are made", objects, OBJECTS)
    unwanted = {"mcp/pool", "mcp/client", "mcp/serve", "context", "executors", "session/agents", "session/approvals"}
    of_all = {"context/surroundings.py", "context/git_repository.py"}
    run = set(cost["all"]) - of_all
    assert not [file for file in run if any(file.startswith(f"{folder}/") for folder in unwanted)]


def test_exec_answers_a_word_with_few_files(tmp_path: Path) -> None:
    """Issue 18: `exec "hi"` is traced from the command line to the wire and back."""
    script = tmp_path / "script.json"
    script.write_text('{"replies": ["hello"]}')
    cost = measure(tmp_path, "exec", "--model", f"scripted/{script}", "hi")
    assert cost["exit"] in (0, None)
    hold('files run a function for `exec "hi"`', cost["all"], EXEC_FILES)
    hold("modules are imported", cost["modules"], EXEC_MODULES)
