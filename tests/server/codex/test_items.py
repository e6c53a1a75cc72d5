"""Items in Codex's shapes: whatever a model wrote, there is one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import ImagePart, TextPart, UserMessage
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.server.codex.items import call_item, user_message, web_search, with_command, with_outcome
from tests.tables import each_row

PATCH = """*** Begin Patch
*** Update File: a.txt
*** Move to: b.txt
@@
-old
+new
*** Delete File: c.txt
*** End Patch"""


def end(*, success: bool = True) -> ToolCallEnd:
    return ToolCallEnd(CallId("c1"), "tool", success, "the output", truncated=False, duration_ms=7)


@each_row(
    ("name", "arguments", "kind"),
    [
        ("shell", {"command": ["ls", "-l"]}, "commandExecution"),
        ("exec_command", {"cmd": "ls"}, "commandExecution"),
        ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"}, "fileChange"),
        ("apply_patch", PATCH, "fileChange"),
        ("apply_patch", {"input": PATCH}, "fileChange"),
        ("apply_patch", "no patch at all", "fileChange"),
        ("view_image", {"path": "x.png"}, "imageView"),
        ("view_image", {}, "dynamicToolCall"),
        ("files__read", {"path": "x"}, "mcpToolCall"),
        ("conv_send", {"conversation_id": "x"}, "dynamicToolCall"),
    ],
)
def test_a_call_has_the_kind_that_clients_know(name: str, arguments: Any, kind: str) -> None:
    """Issue 10 (5): ThreadItem."""
    item = call_item("c1", name, arguments, "/work")
    assert (item["id"], item["type"]) == ("c1", kind)
    assert with_outcome(item, end())["type"] == kind


def test_a_patch_shows_each_file_with_its_diff() -> None:
    """Issue 10 (5): moves and deletions too; paths are absolute."""
    update, delete = call_item("c1", "apply_patch", PATCH, "/work")["changes"]
    assert update == {
        "path": "/work/a.txt",
        "kind": {"type": "update", "move_path": "/work/b.txt"},
        "diff": "@@\n-old\n+new\n",
    }
    assert (delete["path"], delete["kind"]) == ("/work/c.txt", {"type": "delete"})


def test_a_command_ends_with_its_own_output_or_with_what_the_model_was_told() -> None:
    """Issue 10 (5): a refused command has no output of its own; a declined one says nothing."""
    item = with_command(
        call_item("c1", "shell", {"command": ["ls"], "workdir": "sub"}, "/work"), ["ls", "a b"], "/work/sub"
    )
    assert (item["command"], item["cwd"]) == ("ls 'a b'", "/work/sub")
    assert with_outcome({**item, "aggregatedOutput": "own"}, end())["aggregatedOutput"] == "own"
    refused = with_outcome(item, end(success=False))
    assert (refused["aggregatedOutput"], refused["status"]) == ("the output", "failed")
    declined = with_outcome(item, end(success=False), declined=True)
    assert (declined["aggregatedOutput"], declined["status"]) == (None, "declined")


def test_a_call_that_fails_says_so_where_clients_look() -> None:
    """Issue 10 (5)."""
    failed = with_outcome(call_item("c1", "files__read", {}, "/"), end(success=False))
    assert (failed["status"], failed["error"], failed["result"]) == ("failed", {"message": "the output"}, None)
    other = with_outcome(call_item("c1", "mine", {}, "/"), end(success=False))
    assert (other["success"], other["contentItems"][0]["text"]) == (False, "the output")


def test_what_a_person_said_keeps_its_pictures() -> None:
    """Issue 10 (5)."""
    question = UserMessage(ItemId("m1"), (TextPart("look"), ImagePart("https://example.org/x.png")))
    assert user_message(question, "mine") == {
        "type": "userMessage",
        "id": "m1",
        "clientId": "mine",
        "content": [
            {"type": "text", "text": "look", "text_elements": []},
            {"type": "image", "url": "https://example.org/x.png"},
        ],
    }
    assert web_search("s1", "cats")["query"] == "cats"


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
_KEYS = st.sampled_from(["cmd", "command", "workdir", "input", "path"])


@given(
    name=st.sampled_from(["shell", "exec_command", "local_shell", "apply_patch", "view_image", "a__b", "other"]),
    arguments=_ANYTHING | st.dictionaries(_KEYS, _ANYTHING),
)
def test_whatever_a_model_wrote_there_is_an_item(name: str, arguments: Any) -> None:
    """HARDENING D: arguments of every shape."""
    assert with_outcome(call_item("c1", name, arguments, "/work"), end())["id"] == "c1"
