"""Ask another model what a stored session was asked, in a copy of its first files, and make a task of the session."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tertulia
from tertulia.testing import ScriptedModel, call


def program(folder: str, *words: str) -> str:
    """What `tertulia` prints."""
    command = [sys.executable, "-m", "tertulia", "-C", folder, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def prepare(folder: Path) -> None:
    """A file to be changed, and a script for the other model."""
    (folder / "notes.txt").write_text("written by hand\n")
    command = {"command": ["sh", "-c", "cat notes.txt; echo shorter > notes.txt"]}
    replies = [{"tool_calls": [{"name": "shell", "arguments": command}]}, "I shortened them."]
    (folder / "other.json").write_text(json.dumps({"replies": replies}))


async def record(folder: str) -> str:
    """A session in which a model rewrites the notes; its id."""
    model = ScriptedModel([call("shell", {"command": ["sh", "-c", "echo rewritten > notes.txt"]}), "I rewrote them."])
    settings = tertulia.Settings(model=model, cwd=folder, checkpoints=True, approval_policy="never")
    async with tertulia.Session.start(settings) as session:
        await session.root.message("Improve my notes")
        return str(session.id)


def compare(folder: Path, session_id: str) -> None:
    """Both models began with the same file, and the copy is not the user's."""
    other = f"scripted/{folder / 'other.json'}"
    both: dict[str, Any] = json.loads(program(str(folder), "replay", session_id, "-m", other, "-a", "never", "--json"))
    for side in (both["left"], both["right"]):
        print(side["title"].rpartition("/")[2], [line["text"] for line in side["answers"][0]], side["changes"])
    assert both["right"]["changes"] == [{"path": "notes.txt", "act": "changed"}]
    assert (folder / "notes.txt").read_text() == "rewritten\n"
    print(program(str(folder), "eval", "from-session", session_id, "--into", str(folder / "suite")))
    (task,) = (folder / "suite").iterdir()
    assert (task / "repo" / "notes.txt").read_text() == "written by hand\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place))
        compare(Path(place), asyncio.run(record(place)))
