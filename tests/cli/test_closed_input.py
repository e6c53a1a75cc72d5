"""A client that closes its end of the input and reads nothing: every program that speaks on standard streams ends."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.cli.running import DEADLINE_S, Shell
from tests.server.brokering import alive

Ask = Callable[..., Any]


def over_app_server(ask: Ask, folder: Path) -> None:
    ask("initialize", client={"name": "test"})
    ask("conversation/message", answered=False, conversation_id="root", text="go")


def over_codex(ask: Ask, folder: Path) -> None:
    ask("initialize", clientInfo={"name": "test", "version": "1"})
    thread = ask("thread/start")["thread"]["id"]
    ask("turn/start", answered=False, threadId=thread, input=[{"type": "text", "text": "go"}])


def over_acp(ask: Ask, folder: Path) -> None:
    ask("initialize", protocolVersion=1)
    session = ask("session/new", cwd=str(folder), mcpServers=[])["sessionId"]
    ask("session/prompt", answered=False, sessionId=session, prompt=[{"type": "text", "text": "go"}])


def over_mcp(ask: Ask, folder: Path) -> None:
    ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"})
    arguments = {"conversation_id": "root", "text": "go"}
    ask("tools/call", answered=False, name="conversation_message", arguments=arguments)


PROGRAMS = {
    "app-server": (("app-server",), over_app_server),
    "app-server --codex": (("app-server", "--codex"), over_codex),
    "acp": (("acp",), over_acp),
    "mcp-server": (("mcp-server",), over_mcp),
}


class Client:
    """Sends, and reads only what it has to."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in, self._out, self._number = process.stdin, process.stdout, 0

    def ask(self, method: str, *, answered: bool = True, **params: Any) -> Any:
        self._number += 1
        self._in.write(self._line(self._number, method, params))
        self._in.flush()
        while answered:
            answer = json.loads(self._out.readline())
            if "method" not in answer and answer["id"] == self._number:
                return answer["result"]
        return None

    def fill_and_hang_up(self) -> None:
        """Ask until nothing more is taken: by then the program waits for us to read. Its output stays open."""
        os.set_blocking(self._in.fileno(), False)
        line, silent_since = self._line("x", "no/such/method", {}), time.monotonic()
        while time.monotonic() - silent_since < 0.5:
            try:
                os.write(self._in.fileno(), line)
                silent_since = time.monotonic()
            except BlockingIOError:
                Event().wait(0.01)
        self._in.close()

    @staticmethod
    def _line(id: Any, method: str, params: dict[str, Any]) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline, what
        Event().wait(0.01)


@pytest.mark.timeout(120)
def test_a_closed_input_is_seen_although_the_output_is_not_read(shell: Shell, tmp_path: Path) -> None:
    """L2: they were still there after 45 s, with their commands. Side by side, for each takes a while to start."""
    command = ["sh", "-c", 'echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 3600', "sh"]
    with ExitStack() as cleanup:
        clients: dict[str, Client] = {}
        for name, (arguments, _) in PROGRAMS.items():
            calls = [{"name": "shell", "arguments": {"command": [*command, str(tmp_path / name)]}}]
            script = shell.folder / f"{name}.json"
            script.write_text(json.dumps([{"tool_calls": calls}]))
            flags = ("-m", f"scripted/{script}", "-s", "danger-full-access", "-a", "never", "-c", "close_timeout_s=1")
            process = cleanup.enter_context(shell.start(*flags, *arguments))
            cleanup.callback(process.kill)
            clients[name] = Client(process)
        for name, (_, begin) in PROGRAMS.items():
            begin(clients[name].ask, shell.folder)
        for name, client in clients.items():
            until((tmp_path / name).exists, f"{name}: the command did not start")
            client.fill_and_hang_up()
        pids = {name: int((tmp_path / name).read_text()) for name in PROGRAMS}
        for name, client in clients.items():
            assert client.process.wait(DEADLINE_S) == 0, name
        assert not [name for name, pid in pids.items() if alive(pid)]
