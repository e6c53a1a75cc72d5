"""An ACP agent of our own that is a program: `acp_fake.py MODE`. Standard library only, no model.

MODE says how it starts, or which method it does not answer; what it does is said by the prompt, one order a line:
`say TEXT`, `ask KIND`, `read PATH`, `write PATH TEXT`, `run COMMAND`, `call TOOL`, `crash`, `hang`, … It writes down
every message in HOME/received.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

HOME = Path(os.environ.get("HOME", "/"))
MODE = sys.argv[1]
heard: dict[str, list[str]] = {}
servers: dict[str, list[dict[str, Any]]] = {}
numbers = count(1)


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message = json.loads(line)
    with (HOME / "received").open("a") as file:
        file.write(json.dumps({**message, "pid": os.getpid()}) + "\n")
    return message


def update(session: str, what: str, /, **fields: Any) -> None:
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": what, **fields}})


def chunk(session: str, text: str, kind: str = "agent_message_chunk") -> None:
    update(session, kind, content={"type": "text", "text": text})


class CancelledError(Exception):
    """The client wants the task to stop."""


def ask(method: str, **params: Any) -> Any:
    """The client's answer; a refusal is one too."""
    number = f"a{next(numbers)}"
    send(id=number, method=method, params=params)
    while True:
        message = receive()
        if message.get("method") == "session/cancel":
            raise CancelledError
        if message.get("id") == number:
            return message.get("result", message.get("error"))


def hang(session: str, rest: str) -> NoReturn:
    update(session, "tool_call", toolCallId="t1", title="sleep", kind="execute", rawInput={"command": "sleep 9"})
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(rest).write_text(str(os.getpid()))
    while True:
        if receive().get("method") == "session/cancel":
            raise CancelledError


def quiet(session: str, rest: str) -> NoReturn:
    """Has read its prompt and reports nothing of it."""
    Path(rest).write_text(str(os.getpid()))
    while True:
        if receive().get("method") == "session/cancel":
            raise CancelledError


def hang_hard(session: str, rest: str) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(rest).write_text(str(os.getpid()))
    while True:
        signal.pause()


def crash(session: str, rest: str) -> NoReturn:
    chunk(session, "half of an ans")
    update(session, "tool_call", toolCallId="t1", title="ls", kind="execute", status="in_progress", rawInput={})
    sys.stderr.write("e" * 600_000 + "\nit hurts\n")
    os._exit(7)


def flood(session: str, rest: str) -> None:
    for number in range(int(rest)):
        chunk(session, f"{number} ")


def tools(session: str, rest: str) -> None:
    chunk(session, "hm", "agent_thought_chunk")
    update(session, "tool_call", toolCallId="t1", title="later", kind="execute", status="pending")
    update(session, "tool_call_update", toolCallId="t1", title="ls -l", rawInput={"command": "ls -l"})
    update(
        session, "tool_call_update", toolCallId="t1", status="completed", rawOutput={"exit_code": 0},
        content=[{"type": "content", "content": {"type": "text", "text": "a\nb"}}],
    )  # fmt: skip
    diff = {"type": "diff", "path": "/x/a.txt", "oldText": "one\n", "newText": "two\n"}
    update(
        session, "tool_call", toolCallId="t2", title="Edit a.txt", kind="edit", status="completed", content=[diff],
        locations=[{"path": "/x/a.txt", "line": 1}],
    )  # fmt: skip
    update(session, "plan", entries=[{"content": "first", "priority": "high", "status": "completed"}])
    update(session, "something_new", value=1)
    chunk(session, "done")


def permission(session: str, rest: str) -> None:
    kind, _, path = rest.partition(" ")
    call = {"toolCallId": "p1", "title": f"{kind} it", "kind": kind, "rawInput": {"key": "value"}}
    if kind == "execute":
        call["rawInput"] = {"command": "make it so"}
    if path:
        call["locations"] = [{"path": path}]
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    outcome = ask("session/request_permission", sessionId=session, toolCall=call, options=options)["outcome"]
    chunk(session, outcome.get("optionId", outcome["outcome"]))


def change(session: str, rest: str) -> None:
    """As Gemini does: the change stands in the call that was told before, and the question names that."""
    path, _, new = rest.partition(" ")
    diff = {"type": "diff", "path": path, "oldText": "old\n", "newText": f"{new}\n"}
    update(session, "tool_call", toolCallId="c1", title="Edit", kind="edit", status="pending", content=[diff])
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    answer = ask("session/request_permission", sessionId=session, toolCall={"toolCallId": "c1"}, options=options)
    update(session, "tool_call_update", toolCallId="c1", status="completed")
    chunk(session, answer["outcome"]["outcome"])


def read(session: str, rest: str) -> None:
    chunk(session, json.dumps(ask("fs/read_text_file", sessionId=session, path=rest)))


def write(session: str, rest: str) -> None:
    path, _, text = rest.partition(" ")
    chunk(session, json.dumps(ask("fs/write_text_file", sessionId=session, path=path, content=text)))


def run(session: str, rest: str) -> None:
    made = ask("terminal/create", sessionId=session, command=rest, env=[{"name": "SEEN", "value": "yes"}])
    if "terminalId" not in made:
        chunk(session, json.dumps(made))
        return
    named = {"sessionId": session, "terminalId": made["terminalId"]}
    ended = ask("terminal/wait_for_exit", **named)
    output = ask("terminal/output", **named)
    ask("terminal/release", **named)
    chunk(session, json.dumps([ended, output["output"], ask("terminal/output", **named).get("code")]))


def start(session: str, rest: str) -> None:
    """A terminal that is never released."""
    ask("terminal/create", sessionId=session, command="sleep", args=["1000"])
    chunk(session, "started")


def call(session: str, rest: str) -> None:
    """A tool of the one MCP server it was given, over stdio."""
    (server,) = servers[session]
    variables = {**os.environ, **{entry["name"]: entry["value"] for entry in server["env"]}}
    child = subprocess.Popen(
        [server["command"], *server["args"]], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fake", "version": "0"}}
    requests = [
        {"id": 1, "method": "initialize", "params": info},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": json.loads(rest)},
    ]
    answers: list[Any] = []
    for request in requests:
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
        child.stdin.flush()
        while "id" in request:
            line = json.loads(child.stdout.readline())
            if line.get("id") == request["id"]:
                answers.append(line.get("result") or line["error"])
                break
    child.stdin.close()
    child.wait()
    child.stdout.close()
    listed = [tool["name"] for tool in answers[1]["tools"]]
    chunk(session, json.dumps({"tools": listed, "answer": answers[2]}))


def daemon(session: str, rest: str) -> None:
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
    chunk(session, str(left.pid))


def say(session: str, rest: str) -> None:
    chunk(session, rest or json.dumps({"heard": heard[session], "pid": os.getpid(), "servers": len(servers[session])}))


def long(session: str, rest: str) -> None:
    sys.stdout.write('"' + "x" * (17 * 1024 * 1024) + '"\n')
    sys.stdout.flush()


def environment(session: str, rest: str) -> None:
    chunk(session, os.environ.get(rest, ""))


def noise(session: str, rest: str) -> None:
    """Everything that is no message, and messages of nobody."""
    deep = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": {}}}
    for _ in range(400):
        deep["params"]["update"] = {"sessionUpdate": "odd", "more": deep["params"]["update"]}  # type: ignore[index]
    ours: list[Any] = [
        {"id": [], "result": 1}, {"id": 0, "error": "no"}, {"id": True}, {"method": 7}, {"id": 99, "result": {}}, {},
        {"id": None, "method": "session/request_permission"}, {"id": 5, "method": "no/such"}, {"method": "no/such"},
        {"method": "session/update", "params": []}, {"method": "session/update", "params": {"sessionId": "other"}},
        {"id": "f", "method": "fs/read_text_file", "params": {"sessionId": session, "path": 7}}, deep,
        {"id": "t", "method": "terminal/create", "params": {"sessionId": session, "command": []}},
        {"id": "o", "method": "terminal/output", "params": {"sessionId": session, "terminalId": {}}},
    ]  # fmt: skip
    for content in (None, 7, [], {"type": "text"}, {"type": "text", "text": 7}, {"type": "image", "data": "x"}):
        update(session, "agent_message_chunk", content=content)
    for call in ({}, {"toolCallId": 7}, {"toolCallId": "x" * 1000}, {"toolCallId": "y", "status": [], "content": 7}):
        update(session, "tool_call", **call)
    update(session, "plan", entries=7)
    for line in ours:
        sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.write('{"jsonrpc": "2.0", "id"\n[1, 2]\n"text"\nnull\n\x00\x00\n' + "{" * 5000 + "\n")
    sys.stdout.flush()
    chunk(session, "still here")


def leave(session: str, rest: str) -> None:
    """Asks for something and does not wait for the answer."""
    method, _, argument = rest.partition(" ")
    send(id="left", method=method, params={"sessionId": session, **json.loads(argument)})


def stubborn(session: str, rest: str) -> NoReturn:
    """Reads, and does nothing of what it is told."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    update(session, "tool_call", toolCallId="t1", title="sleep", kind="execute", rawInput={"command": "sleep 9"})
    Path(rest).write_text(str(os.getpid()))
    while True:
        receive()


def limit(session: str, rest: str) -> str:
    return rest


ORDERS = {
    "ask": permission, "call": call, "change": change, "crash": crash, "daemon": daemon, "environment": environment,
    "flood": flood, "hang": hang, "hang_hard": hang_hard, "leave": leave, "long": long, "noise": noise, "quiet": quiet,
    "read": read, "run": run, "start": start, "stop": limit, "stubborn": stubborn, "tools": tools, "write": write,
}  # fmt: skip


def prompt(session: str, text: str) -> dict[str, Any]:
    heard[session].append(text)
    if MODE == "load":
        (HOME / session).write_text(json.dumps(heard[session]))
    order, _, rest = text.rpartition("\n")[2].partition(" ")
    reason = ORDERS.get(order, lambda session, _: say(session, ""))(session, rest) or "end_turn"
    return {"stopReason": reason, "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}}


def begin(params: dict[str, Any], session: str, known: list[str]) -> dict[str, Any]:
    heard[session], servers[session] = known, params["mcpServers"]
    return {"sessionId": session}


def load(params: dict[str, Any]) -> dict[str, Any] | None:
    session = params["sessionId"]
    home = HOME / session
    if not home.exists():
        return None
    begin(params, session, json.loads(home.read_text()))
    chunk(session, "this was said before")
    return {}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            can = {"loadSession": MODE == "load"}
            login = [{"id": "x", "name": "Log in", "description": "run `fake login`"}, {"name": 7}]
            methods = {"authMethods": login} if MODE == "auth" else {}
            return {"protocolVersion": 99 if MODE == "old" else 1, "agentCapabilities": can, **methods}
        case "session/new" if MODE != "auth":
            return begin(params, str(uuid.uuid4()), [])
        case "session/load":
            return load(params)
        case "session/set_mode":
            return {}
        case "session/prompt":
            try:
                return prompt(params["sessionId"], params["prompt"][0]["text"])
            except CancelledError:
                return {"stopReason": "cancelled"}
        case _:
            return None


def main() -> None:
    if MODE == "exits":
        sys.stderr.write("one\nno way\n")
        sys.exit(3)
    if MODE == "prints":
        sys.stdout.write("Visit https://login.example to log in\nCode: ")
        sys.stdout.flush()
    if MODE == "html":
        sys.stdout.write("<html>\n502\n</html>\n")
        sys.exit(0)
    while True:
        message = receive()
        if "method" not in message or "id" not in message or MODE in ("silent", "prints", message["method"]):
            continue
        result = answer(message)
        if result is None:
            send(id=message["id"], error={"code": -32000, "message": "Authentication required"})
        else:
            send(id=message["id"], result=result)


if __name__ == "__main__":
    main()
