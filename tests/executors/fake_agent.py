"""An agent of our own that is a program: `fake_agent.py MODE [resume ID] …`. Standard library only, no model.

In mode `codex` it prints what `codex exec --json` would, keeps them in HOME, and answers with all it was told.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, NoReturn


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    sys.stderr.write(text + "\n")


def say(**line: Any) -> None:
    tell(json.dumps(line))


def item(event: str, number: int, kind: str, **fields: Any) -> None:
    say(type=f"item.{event}", item={"id": f"item_{number}", "type": kind, **fields})


def codex(arguments: list[str]) -> None:
    conversations = Path(os.environ["HOME"]) / "conversations"
    conversations.mkdir(exist_ok=True)
    resumed = arguments[arguments.index("resume") + 1] if "resume" in arguments else None
    prompt = sys.stdin.read()
    if resumed is not None and not (conversations / resumed).exists():
        complain(f"no thread {resumed}")
        sys.exit(1)
    thread = resumed or str(uuid.uuid4())
    heard = json.loads((conversations / thread).read_text()) if resumed else []
    heard.append(prompt)
    (conversations / thread).write_text(json.dumps(heard))
    say(type="thread.started", thread_id=thread)
    say(type="turn.started")
    if prompt.endswith("fail"):
        say(type="turn.failed", error={"message": "asked to"})
        sys.exit(1)
    item("started", 0, "command_execution", command="ls", status="in_progress")
    if prompt.startswith("gate "):
        Path(prompt.split()[1]).read_text()
    item("completed", 0, "command_execution", command="ls", aggregated_output="a\n", exit_code=0, status="completed")
    item("completed", 1, "agent_message", text=json.dumps({"heard": heard, "arguments": arguments}))
    say(type="turn.completed", usage={"input_tokens": 10 * len(heard), "output_tokens": len(heard)})


def hang(arguments: list[str]) -> NoReturn:
    say(type="thread.started", thread_id="t-1")
    item("started", 0, "command_execution", command="sleep 1000", status="in_progress")
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(arguments[0]).write_text("begun")
    while True:
        signal.pause()


def hang_hard(arguments: list[str]) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang(arguments)


def late(arguments: list[str]) -> NoReturn:
    say(type="turn.started")
    item("completed", 0, "agent_message", text="done")
    say(type="turn.completed", usage={})
    while True:
        signal.pause()


def chatty(arguments: list[str]) -> NoReturn:
    """Has said how it ended, and goes on about nothing."""
    say(type="turn.completed", usage={})
    while not select.select([], [], [], 0.01)[0]:
        say(type="heartbeat")


def flood(arguments: list[str]) -> NoReturn:
    while True:
        sys.stdout.write("x" * 65_536)


def flood_of(arguments: list[str]) -> NoReturn:
    while True:
        sys.stdout.write(f"{arguments[0]}\n" * 10_000)


def daemon(arguments: list[str]) -> None:
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
    tell(str(left.pid))


def holder(arguments: list[str]) -> None:
    """Leaves somebody behind who has its standard output and says something from time to time."""
    script = "import os, signal; os.write(1, b'late\\n'); signal.pause()"
    left = subprocess.Popen([sys.executable, "-S", "-c", script], start_new_session=True, stderr=-3)
    say(type="turn.started")
    item("completed", 0, "agent_message", text=str(left.pid))
    say(type="turn.completed", usage={})


def deaf(arguments: list[str]) -> None:
    """Does not read what it is told."""
    say(type="turn.started")
    item("completed", 0, "agent_message", text="I know")
    if arguments:
        Path(arguments[0]).write_text("begun")
        signal.pause()
    say(type="turn.completed", usage={})


def fails_after(arguments: list[str]) -> NoReturn:
    say(type="turn.completed", usage={})
    sys.exit(1)


def repeats(arguments: list[str]) -> None:
    """Says everything twice, under one id, and of itself twice who it is."""
    say(type="thread.started", thread_id="t-1")
    say(type="thread.started", thread_id="t-2")
    for text in ("one", "two"):
        item("started", 0, "mcp_tool_call", server="s" * 100_000, tool="t\n\x1b[31m", arguments={})
        item("completed", 0, "mcp_tool_call", server="s", tool="t", arguments={}, status="completed", result=text)
        item("completed", 1, "agent_message", text=text)
        item("completed", 2, "reasoning", text=text)
    deep: Any = {}
    for _ in range(400):
        deep = {"deep": deep}
    say(type="odd", **deep)
    say(type="turn.completed", usage={"input_tokens": 9, "output_tokens": 9})
    say(type="turn.completed", usage={"input_tokens": 5, "output_tokens": 2, "cached_input_tokens": -7})
    say(type="turn.completed", usage={"input_tokens": 10**30, "output_tokens": True})


def noisy(arguments: list[str]) -> None:
    sys.stderr.write("e" * 600_000 + "\n")
    tell("fine")


def long(arguments: list[str]) -> None:
    say(type="turn.started")
    item("completed", 0, "agent_message", text="y" * 1_100_000 + "\u202e\x00")
    say(type="turn.completed", usage={})


def exits(arguments: list[str]) -> NoReturn:
    complain("one\n\x1b[31mno way\x1b[0m")
    sys.exit(3)


def logged_out(arguments: list[str]) -> NoReturn:
    complain("Error: Not logged in")
    sys.exit(1)


def old(arguments: list[str]) -> NoReturn:
    complain("error: unexpected argument '--json' found")
    sys.exit(2)


def caller(arguments: list[str]) -> None:
    """Calls the tools that its prompt names, at the MCP server that it was given."""
    wanted = json.loads(sys.stdin.read())
    if "--server" not in arguments:
        tell(json.dumps({"tools": None}))
        return
    program, words = (json.loads(word) for word in arguments[arguments.index("--server") + 1 :][:2])
    with subprocess.Popen([program, *words], stdin=-1, stdout=-1, text=True) as server:
        ask = _Asking(server)
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fake", "version": "1"}}
        ask("initialize", **info)
        ask.notify("notifications/initialized")
        tools = [tool["name"] for tool in ask("tools/list")["tools"]]
        results = [ask("tools/call", **call)["content"][0]["text"] for call in wanted]
        server.stdin.close()  # type: ignore[union-attr]
        server.wait(100)
    tell(json.dumps({"tools": tools, "results": results, "code": server.returncode}))


def socket(arguments: list[str]) -> None:
    """Shows others the way to the MCP server that it was given, and waits until they are done."""
    home = Path(os.environ["HOME"])
    os.mkfifo(home / "gate")
    (home / "socket").write_text(json.loads(arguments[arguments.index("--server") + 2])[-1])
    tell((home / "gate").read_text())


def reads(arguments: list[str]) -> None:
    (path,) = arguments
    line = Path("/proc/self/cmdline").read_text()
    tell(json.dumps({"path": path, "read": Path(path).read_text(), "line": line}))


class _Asking:
    def __init__(self, server: Any) -> None:
        self._server, self._number = server, 0

    def __call__(self, method: str, **params: Any) -> Any:
        self._number += 1
        self.notify(method, id=self._number, **params)
        while True:
            line = json.loads(self._server.stdout.readline())
            if line.get("id") == self._number and "method" not in line:
                return line["result"]

    def notify(self, method: str, id: int | None = None, **params: Any) -> None:
        number = {} if id is None else {"id": id}
        message = {"jsonrpc": "2.0", **number, "method": method, "params": params}
        self._server.stdin.write(json.dumps(message) + "\n")
        self._server.stdin.flush()


MODES = {
    "at_once": lambda _: None,
    "caller": caller,
    "chatty": chatty,
    "codex": codex,
    "daemon": daemon,
    "deaf": deaf,
    "socket": socket,
    "echo": lambda _: tell(sys.stdin.read()),
    "environment": lambda _: tell(json.dumps(dict(os.environ))),
    "exits": exits,
    "fails_after": fails_after,
    "flood": flood,
    "flood_of": flood_of,
    "hang": hang,
    "hang_hard": hang_hard,
    "holder": holder,
    "html": lambda _: tell("<html>\n<body>502 Bad Gateway</body>\n</html>"),
    "late": late,
    "logged_out": logged_out,
    "long": long,
    "noisy": noisy,
    "old": old,
    "reads": reads,
    "repeats": repeats,
}

if __name__ == "__main__":
    MODES[sys.argv[1]](sys.argv[2:])
