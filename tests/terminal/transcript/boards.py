"""Boards for tests of the transcript: a played session with every kind of cell, and long ones."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult
from textual.message import Message

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.drawing.palette import Marks
from tertulia.terminal.transcript.cell_source import CellSource, ConversationCells
from tertulia.terminal.transcript.transcript import Transcript
from tertulia.view.board import Board
from tertulia.view.conversation_view import ConversationView
from tests.view.golden import events_of, fold

ROOT = ConversationId("root")

PATCH = """*** Begin Patch
*** Update File: app.py
@@ def total(items):
-    sum = 0
-    for item in items:
-        sum = sum + item.price
-    return sum
+    return sum(item.price * item.count for item in items)
*** Add File: tests/test_total.py
+from app import total
+
+
+def test_two_of_a_kind():
+    assert total([Item(250, 2)]) == 500
*** End Patch"""

ANSWER = """I had the tests run by **tester** and the change read by *reviewer*. Both agree on the cause.

## What was wrong

`total()` added each item's price once, whatever its `count`.

```python
def total(items):
    \"\"\"The price of everything in the basket, in cents.\"\"\"
    return sum(item.price * item.count for item in items)
```

1. Rewrote `total` as one sum over price times count.
2. Added a test that fails without the change.

| file | change |
|------|--------|
| app.py | 5 lines became 2 |
| tests/test_total.py | new, 5 lines |

Shall I commit it? See [the issue](https://example.org/7)."""


class Script:
    """Writes events down, a second apart."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = [
            {
                "type": "session_configured",
                "data": {
                    "root_conversation_id": "root",
                    "protocol_version": "1",
                    "version": "1",
                    "model": "m/x",
                    "policy": {},
                },
            },
        ]
        self.open("root", None)

    def add(self, type: str, conversation: str = "root", task: str = "t1", **data: Any) -> Script:
        self.events.append({"type": type, "conversation": conversation, "task": task, "data": data})
        return self

    def open(self, id: str, parent: str | None, task: str = "t0") -> Script:
        return self.add(
            "conversation_opened",
            id,
            task,
            parent_id=parent,
            title=None if id == "root" else id,
            model="m/x",
            backend="native",
        )

    def ask(self, text: str, conversation: str = "root", task: str = "t1", kind: str = "user") -> Script:
        self.add("task_started", conversation, task, kind=kind)
        how, caller = ("delegated", "root") if kind == "target" else ("message", None)
        item = f"u{len(self.events)}"
        return self.add("user_message", conversation, task, item_id=item, text=text, how=how, caller_id=caller)

    def say(self, text: str, conversation: str = "root", id: str | None = None) -> Script:
        return self.add("agent_message", conversation, text=text, item_id=id or f"i{len(self.events)}")

    def call(self, id: str, name: str, arguments: Any, conversation: str = "root") -> Script:
        return self.add("tool_call_begin", conversation, call_id=id, name=name, arguments=arguments)

    def end(self, id: str, name: str, output: str, conversation: str = "root", *, success: bool = True) -> Script:
        return self.add(
            "tool_call_end",
            conversation,
            call_id=id,
            name=name,
            success=success,
            output=output,
            truncated=False,
            duration_ms=800,
        )

    def run(self, id: str, script: str, output: str, exit_code: int = 0, conversation: str = "root") -> Script:
        self.call(id, "shell", {"command": script}, conversation)
        command = ["bash", "-lc", script]
        self.add("exec_command_begin", conversation, call_id=id, command=command, cwd="/home/ada/shop")
        self.add(
            "exec_command_end",
            conversation,
            call_id=id,
            exit_code=exit_code,
            output=output,
            truncated=False,
            duration_ms=800,
        )
        return self.end(id, "shell", output, conversation, success=exit_code == 0)

    def played(self) -> list[Event]:
        return events_of({"events": self.events})

    def board(self) -> Board:
        return fold(self.played())


def shop() -> Script:
    """A session that fixes a bug, with every kind of cell in it."""
    script = Script()
    script.ask(
        "The basket's total is wrong when somebody buys two of a thing. Find out why, fix it, and have it reviewed."
    )
    script.add(
        "agent_reasoning",
        text="**Looking first**\n\nThe total ignores counts, maybe.\nRead.\nThen test.\nThen fix.",
        item_id="r1",
    )
    script.say("I look at the code, then have it tested and read by others.")
    script.call("p1", "update_plan", {})
    steps = [("Read app.py", "completed"), ("Have the tests run", "in_progress"), ("Report", "pending")]
    script.add("plan_update", plan=[{"step": step, "status": status} for step, status in steps])
    source = "def total(items):\n    sum = 0\n    for item in items:\n        sum = sum + item.price\n    return sum\n"
    script.run("c1", "sed -n 1,20p app.py", source)
    script.run(
        "c2",
        "pytest -q",
        "\n".join(f"line {n}" for n in range(20)) + "\nE  assert 250 == 500\napp.py:4: AssertionError",
        1,
    )
    script.call("c3", "conv_create", {"title": "tester", "user_instruction": "Run the tests."})
    script.add("turn_aborted", reason="replaced", by_call_id="c3")
    script.open("tester", "root", "t1")
    script.ask("Run the tests.", "tester", "t2", "target")
    script.say("One test fails: `test_two_of_a_kind` expects 500 and gets 250.", "tester")
    script.add("task_complete", "tester", "t2", status="completed", last_assistant_message="x", usage=USAGE)
    script.add("task_started", "root", "t3", kind="continuation")
    script.end("c3", "conv_create", '{"ok":true,"status":"completed","last_assistant_message":"One test fails."}')
    script.call("c4", "apply_patch", PATCH)
    script.add("approval_request", **APPROVAL)
    script.add(
        "approval_resolved",
        approval_id="a1",
        decision="deny",
        reason="not on a Friday",
        by={"kind": "client", "name": "ada"},
    )
    changes = [{"path": "app.py", "kind": "update"}, {"path": "tests/test_total.py", "kind": "add"}]
    script.add("patch_apply_begin", call_id="c4", changes=changes)
    script.add("patch_apply_end", call_id="c4", success=True, message="2 files changed")
    script.end("c4", "apply_patch", "done")
    script.call("c5", "search", {"query": "basket"})
    script.add("mcp_tool_call_begin", call_id="c5", server="docs", tool="search")
    script.end("c5", "search", "nothing was found")
    script.call("c6", "conv_list", {})
    script.end(
        "c6",
        "conv_list",
        '{"ok":true,"conversations":[{"title":null,"status":"running"},{"title":"tester","status":"idle"}]}',
    )
    script.add("warning", message="the model is not in the list of models", code="unknown_model")
    script.add("error", message="the provider did not answer", code="model_error", retryable=True)
    script.say(ANSWER)
    script.add("task_complete", task="t3", status="completed", last_assistant_message="x", usage=USAGE)
    return script


USAGE = {
    "input_tokens": 10_000,
    "cached_input_tokens": 7_000,
    "output_tokens": 500,
    "reasoning_output_tokens": 0,
    "total_tokens": 10_500,
}
APPROVAL = {
    "approval_id": "a1",
    "kind": "patch",
    "conversation_id": "root",
    "chain": ["root"],
    "title": "apply a patch to 2 files in /home/ada/shop",
    "detail": "app.py, tests/test_total.py",
    "matches": [],
    "scopes": ["once"],
}


def long_board(cells: int) -> Board:
    """A conversation with so many cells: a message, an answer and a command by turns."""
    script = Script()
    for number in range(cells // 3):
        script.ask(f"question {number}")
        script.say(f"Answer **{number}** with `code` and a few words more than fit into one line of a small terminal.")
        script.run(f"c{number}", f"echo {number}", f"{number}\n")
    return script.board()


def root_cells(board: Board) -> ConversationCells:
    return ConversationCells(board.conversations[ROOT], board)


def view_of(board: Board) -> ConversationView:
    return board.conversations[ROOT]


class TranscriptApp(App[None]):
    """A transcript and nothing else; keeps what it asks for."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Transcript { height: 1fr; }"

    def __init__(self, source: CellSource | None = None, marks: Marks | None = None) -> None:
        super().__init__(ansi_color=True)
        self.messages: list[Message] = []
        self._source = source
        self._marks = marks

    def compose(self) -> ComposeResult:
        yield Transcript()

    def on_mount(self) -> None:
        self.transcript.focus()
        if self._marks is not None:
            self.transcript.use_marks(self._marks)
        if self._source is not None:
            self.transcript.show(self._source)

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    def on_copy_requested(self, message: Message) -> None:
        self.messages.append(message)

    def on_fork_requested(self, message: Message) -> None:
        self.messages.append(message)

    def on_open_file(self, message: Message) -> None:
        self.messages.append(message)

    def on_search_closed(self, message: Message) -> None:
        self.messages.append(message)
