"""The same operations for any language: a session over JSON-RPC, one JSON object a line.

Started as a child process here; an editor or a service would do the same.
"""

import json
import subprocess
import sys
from typing import Any

server = subprocess.Popen(
    [sys.executable, "-m", "tertulia", "app-server", "-m", "scripted/tour", "-s", "read-only"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
)
assert server.stdin is not None
assert server.stdout is not None
events: list[str] = []


def call(method: str, **params: Any) -> Any:
    """Ask, and collect the events that come before the answer."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("method") == "event":
            events.append(message["params"]["type"])
        elif "error" in message:
            raise RuntimeError(f"{message['error']['data']['code']}: {message['error']['message']}")
        else:
            return message["result"]
    raise RuntimeError("the server has gone")


info = call("initialize", client={"name": "example", "version": "1"})
opened = call("conversation/open", title="A first conversation", sandbox="workspace-write")
print("given:", opened["narrowed"][0]["given"], "instead of", opened["narrowed"][0]["asked"])

answer = call("conversation/message", conversation_id=opened["conversation_id"], text="What is Tertulia?")
print(answer["last_assistant_message"])
listed = call("conversation/list")["conversations"]
server.stdin.close()

assert info["policy"]["sandbox"] == opened["narrowed"][0]["given"] == "read-only"
assert answer["status"] == "completed"
assert [conversation["title"] for conversation in listed] == [None, "A first conversation"]
assert events.index("task_started") < events.index("task_complete")  # all events of a task before its answer
assert server.wait(timeout=20) == 0
