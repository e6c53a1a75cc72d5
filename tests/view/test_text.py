"""The wording of screens: calls, answers and ends as people read them."""

from __future__ import annotations

from tertulia.protocol.tool_events import ApprovalResolved, Decider
from tertulia.view import cells as c
from tertulia.view.text import answer_text, call_output, decider_text, duration, end_text, headline, more_lines
from tests.tables import each_row


def tool(name: str, arguments: object = None, output: str = "", server: str | None = None) -> c.ToolCallCell:
    call = c.ToolCallCell(key="k", ts="", call_id="c", name=name, arguments=arguments, server=server)
    call.settle(output)
    return call


def command(*words: str) -> c.CommandCell:
    return c.CommandCell(key="k", ts="", call_id="c", name="shell", command=list(words), cwd="/")


def handoff(name: str, **fields: object) -> c.HandoffCell:
    return c.HandoffCell(key="k", ts="", call_id="c", name=name, **fields)


@each_row(
    ("call", "text"),
    [
        (command("ls", "a b"), "$ ls 'a b'"),
        (command("/bin/bash", "-lc", "ls | wc"), "$ ls | wc"),
        (command("bash", "script.sh", "-c"), "$ bash script.sh -c"),
        (tool("search", {"query": "basket"}, server="docs"), "docs: search basket"),
        (tool("read_file", {"path": "a.py"}), "read_file a.py"),
        (tool("conv_list"), "looks at the list of conversations"),
        (tool("conv_history", {"conversation_id": "tester-id"}), "reads what was written in “TESTER-ID”"),
        (tool("conv_destroy", {"conversation_id": "x"}), "closes “X”"),
        (tool("conv_merge", {}), "merges the work of a conversation"),
        (handoff("conv_create", title="tester"), "asks a new conversation “tester”"),
        (handoff("conv_send", target_id="tester-id"), "asks “TESTER-ID”"),
    ],
)
def test_a_call_in_one_line(call: c.Call, text: str) -> None:
    assert headline(call, str.upper) == text


@each_row(
    ("call", "text"),
    [
        (tool("conv_send", output='{"ok":true,"last_assistant_message":"It works."}'), "It works."),
        (tool("conv_send", output='{"ok":false,"reason":"it was stopped"}'), "it was stopped"),
        (tool("conv_list", output='{"ok":false,"reason":"not allowed here"}'), "not allowed here"),
        (tool("apply_patch", output='{"ok":false,"code":"approval_denied","reason":"no"}'), "no"),
        (tool("conv_destroy", output='{"ok":true}'), ""),
        (tool("conv_list", output='{"ok":true,"conversations":[{"title":null,"status":"idle"}]}'), "root: idle"),
        (tool("conv_list", output='{"ok":true}'), '{"ok":true}'),
        (tool("conv_send", output='{"ok":tr'), '{"ok":tr'),
        (tool("fetch", output='{"reason":"x"}'), '{"reason":"x"}'),
    ],
)
def test_what_came_of_a_call_is_no_json_where_it_is_ours(call: c.Call, text: str) -> None:
    assert call_output(call) == text


@each_row(
    ("by", "text"),
    [
        (None, "a client"),
        (Decider("client"), "a client"),
        (Decider("client", "ada"), "ada"),
        (Decider("callback"), "the application"),
        (Decider("grant", grant_id="g"), "a grant given before"),
        (Decider("policy", "never"), "the policy never"),
        (Decider("clock"), "the clock: there was no answer in time"),
        (Decider("interrupt"), "an interrupt"),
        (Decider("shutdown"), "the end of the session"),
    ],
)
def test_who_decided_has_a_name(by: Decider | None, text: str) -> None:
    assert decider_text(by) == text


@each_row(
    ("answer", "text"),
    [
        (ApprovalResolved("a", "allow", "once", by=Decider("client", "ada")), "allowed once by ada"),
        (ApprovalResolved("a", "allow", "conversation"), "allowed for this conversation by a client"),
        (ApprovalResolved("a", "allow", "session"), "allowed for the session by a client"),
        (ApprovalResolved("a", "allow"), "allowed by a client"),
        (ApprovalResolved("a", "deny", reason="too late", by=Decider("client", "bo")), "denied by bo: too late"),
        (ApprovalResolved("a", "deny", reason="user", by=Decider("client", "bo")), "denied by bo"),
    ],
)
def test_an_answer_says_who_gave_it_and_for_how_long(answer: ApprovalResolved, text: str) -> None:
    assert answer_text(answer) == text


def test_every_end_of_a_task_has_words() -> None:
    statuses = c.TaskEndCell.__annotations__["status"]
    for status in ("completed", "failed", "replaced", "interrupted", "timeout", "shutdown", "crash", "limit"):
        assert status in statuses
        assert end_text(c.TaskEndCell(key="e", ts="", status=status))


def test_numbers_for_people() -> None:
    assert [more_lines(1), more_lines(1_200)] == ["1 more line", "1,200 more lines"]
    assert [duration(0.84), duration(12.4), duration(185), duration(7_800)] == [
        "0.8 s",
        "12 s",
        "3 min 5 s",
        "2 h 10 min",
    ]
