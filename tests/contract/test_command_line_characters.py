"""No verb lets text of models, tools, servers or commands steer a terminal, or hide on one, nor through a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.app_server import surroundings, write_script
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S
EVIL = "a\x1b]0;gotcha\x07\x9b2J\u202eexe.\u2066b\u200bc\U000e0041d\u2028e\rf"
WRITING = "\u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f467 \u65e5\u672c e\u0301"
STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200c\u200e-\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e0fff]"
)
BETWEEN = "----8<----"

_SEVERAL = f"""
import json, os, sys
from tertulia.cli.main import main
codes = []
for line in json.loads(sys.argv[1]):
    codes.append(main(line))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.write(1, b"\\n{BETWEEN}\\n")
sys.exit(max(code for code in codes) if all(code == 0 for code in codes) else 1)
"""
"""Runs several command lines in one process, as the program itself runs one."""

_SERVER = """
import json, sys
EVIL = {evil!r}
tool = {{"name": "look", "description": EVIL, "inputSchema": {{"type": "object", "properties": {{}}}}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        about = {{"name": EVIL, "version": EVIL}}
        result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": about}}
    else:
        result = {{"tools": [tool]}} if asked["method"] == "tools/list" else {{}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


def configure(folder: Path) -> str:
    """A model and a server that say evil things; the model's name."""
    (folder / "server.py").write_text(_SERVER.format(evil=EVIL))
    config = folder / "home" / ".config" / "tertulia" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    program, script = json.dumps(sys.executable), json.dumps(str(folder / "server.py"))
    config.write_text(f"[mcp_servers.evil]\ncommand = {program}\nargs = [{script}]\n")
    called = {"name": "conv_create", "arguments": {"user_instruction": EVIL, "title": EVIL.replace("\u2028", "")}}
    return write_script(folder, [{"tool_calls": [called]}, EVIL + WRITING, EVIL + WRITING, EVIL + WRITING])


def verbs(model: str) -> list[list[str]]:
    """Each verb that prints what others said."""
    return [
        ["exec", "-m", model, EVIL],
        ["sessions", "ls"],
        ["sessions", "show", "--last"],
        ["sessions", "replay", "--last"],
        ["conv", "ls", "--last"],
        ["conv", "history", "root", "--last"],
        ["conv", "send", "root", EVIL, "--last"],
        ["resume", "--last"],
        ["mcp", "ls"],
        ["mcp", "test", "evil"],
        ["mcp", "tools"],
        ["prompt"],
        ["doctor"],
    ]


def arguments(model: str) -> list[str]:
    return [sys.executable, "-c", _SEVERAL, json.dumps(verbs(model))]


def through_a_pipe(folder: Path) -> str:
    environment = surroundings(folder / "home")
    ran = subprocess.run(
        arguments(configure(folder)), cwd=folder, env=environment, capture_output=True, timeout=DEADLINE_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return f"{ran.stdout.decode()}\n{ran.stderr.decode()}"


def on_a_terminal(folder: Path) -> str:
    environment = {**surroundings(folder / "home"), "TERM": "xterm", "NO_COLOR": "1"}
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        arguments(configure(folder)), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=secondary, stderr=secondary,
    )  # fmt: skip
    os.close(secondary)
    seen = b""
    try:
        with process:
            while piece := _read(primary):
                seen += piece
            process.wait(DEADLINE_S)
    finally:
        os.close(primary)
    # What the terminal's own driver makes of a line end.
    return seen.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


@pytest.mark.parametrize("run", [through_a_pipe, on_a_terminal])
def test_no_verb_passes_on_what_steers_or_hides(run, tmp_path: Path) -> None:
    """A6, HARDENING A22: pipes and terminals get the same marks, and ordinary writing as it is."""
    seen = run(tmp_path)
    pieces = seen.replace("\r\x1b[K", "").split(BETWEEN)
    for piece, verb in zip(pieces, verbs("m"), strict=False):
        found = STEERING.search(piece)
        assert found is None, f"{verb}: {found and found[0]!r} in {piece[max(0, found.start() - 60) :][:200]!r}"
    assert not STEERING.search(pieces[-1])
    shown = "a⟨U+001B⟩]0;gotcha⟨U+0007⟩⟨U+009B⟩2J⟨U+202E⟩exe.⟨U+2066⟩b⟨U+200B⟩c⟨U+E0041⟩d"
    telling = [verb[0:2] for piece, verb in zip(pieces, verbs("m"), strict=False) if shown in piece]
    assert ["mcp", "test"] in telling
    assert ["sessions", "replay"] in telling
    assert ["exec", "-m"] in telling
    assert ["conv", "send"] in telling
    assert WRITING in seen


def test_json_stays_exact(tmp_path: Path) -> None:
    """A6: `--json` is data. It is escaped as JSON is, and decoded it is what was said."""
    model = configure(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "tertulia", "exec", "--json", "-m", model, "go"],
        cwd=tmp_path, env=surroundings(tmp_path / "home"), capture_output=True, timeout=DEADLINE_S, check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert not STEERING.search(ran.stdout.decode())
    answers = [json.loads(line).get("item", {}).get("text") for line in ran.stdout.splitlines()]
    assert EVIL + WRITING in answers
