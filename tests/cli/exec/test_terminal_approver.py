"""`exec` on a terminal asks the person there; without one it refuses, says so, and ends with 1."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli.output.approval_question import (
    ApprovalAnswer,
    FormField,
    answer_help,
    folded_lines,
    form_fields,
    parse_answer,
    question_lines,
)
from tertulia.cli.output.tables import cell_width
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tests.cli.running import Shell
from tests.cli.stored_sessions import Screen
from tests.sandbox.confined import need
from tests.tables import each_row

SCOPES: list[Any] = ["once", "conversation", "session", "project"]
KEYS = "[n]o, with a reason › "


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


def outside(shell: Shell) -> Path:
    return shell.folder.parent / "made"


def escalating(shell: Shell, *command: str) -> str:
    """A script whose model wants to leave the sandbox."""
    arguments = {
        "command": list(command or ("touch", str(outside(shell)))),
        "sandbox_permissions": "require_escalated",
        "justification": "it has to",
    }
    call = {"tool_calls": [{"name": "shell", "arguments": arguments}]}
    return shell.script(call, "Tried.", call, "Tried again.")


@pytest.mark.slow
def test_a_person_is_asked_what_where_in_which_sandbox_and_why_and_their_yes_counts(shell: Shell) -> None:
    """Issue 19, 1."""
    screen = Screen(shell, "exec", "-m", escalating(shell), "go")
    shown = screen.until(KEYS)
    assert f"? run outside the sandbox: touch {outside(shell)}" in shown
    assert f"in {shell.folder}" in shown
    assert "sandbox: none: outside the sandbox, instead of workspace-write" in shown
    assert "The model's reason, in its own words:" in shown
    assert "│ it has to" in shown
    assert "[y]es once  [c]onversation  [s]ession  [p]roject" in shown
    assert not outside(shell).exists()
    screen.type("y\n")
    screen.until("Tried.")
    assert screen.close() == 0
    assert outside(shell).exists()


@pytest.mark.slow
def test_a_no_with_a_reason_reaches_the_model_and_is_no_failure(shell: Shell) -> None:
    screen = Screen(shell, "exec", "--json", "-m", escalating(shell), "go")
    screen.until(KEYS)
    screen.type("n use the workspace instead\n")
    shown = screen.until("turn.completed")
    assert "the user said no: use the workspace instead" in shown
    assert screen.close() == 0
    assert not outside(shell).exists()


@pytest.mark.slow
def test_what_is_not_understood_is_asked_again_and_never_a_yes(shell: Shell) -> None:
    screen = Screen(shell, "exec", "-m", escalating(shell), "go")
    for typed in ("", "maybe", "yes please", "q"):
        screen.until(KEYS)
        screen.type(f"{typed}\n")
        screen.until("y allows it this once")
    screen.until(KEYS)
    screen.type("n\n")
    screen.until("Tried.")
    assert screen.close() == 0
    assert not outside(shell).exists()


@pytest.mark.slow
def test_what_was_typed_before_the_question_is_no_answer(shell: Shell) -> None:
    """Typed ahead, a `y` would allow what its author has not seen."""
    screen = Screen(shell, "exec", "-m", escalating(shell), "go")
    screen.type("y\ny\n")
    screen.until(KEYS)
    screen.type("n\n")
    screen.until("Tried.")
    assert screen.close() == 0
    assert not outside(shell).exists()


@pytest.mark.slow
def test_the_end_of_input_is_a_no(shell: Shell) -> None:
    screen = Screen(shell, "exec", "-m", escalating(shell), "go")
    screen.until(KEYS)
    screen.type("\x04")
    screen.until("Tried.")
    assert screen.close() == 0
    assert not outside(shell).exists()


@pytest.mark.slow
def test_a_signal_at_the_question_stops_the_run(shell: Shell) -> None:
    screen = Screen(shell, "exec", "-m", escalating(shell), "go")
    screen.until(KEYS)
    screen.process.send_signal(signal.SIGINT)
    screen.until("interrupted")
    assert screen.close() == 130
    assert not outside(shell).exists()


@pytest.mark.slow
def test_a_yes_for_the_project_spares_the_question_next_time_also_without_a_terminal(shell: Shell) -> None:
    model = escalating(shell)
    screen = Screen(shell, "exec", "-m", model, "go")
    screen.until(KEYS)
    screen.type("p\n")
    screen.until("Tried.")
    assert screen.close() == 0
    outside(shell).unlink()
    ran = shell.spawn("exec", "-m", model, "go")
    assert (ran.code, ran.out) == (0, "Tried.\n")
    assert outside(shell).exists()


def test_without_a_terminal_it_is_refused_said_and_ends_with_1(shell: Shell) -> None:
    ran = shell.spawn("exec", "-m", escalating(shell), "go")
    assert (ran.code, ran.out) == (1, "Tried.\n")
    assert f"refused $ touch {outside(shell)}: no one could answer" in ran.err
    for way in ("`-a never`", "`--sandbox`", "`tertulia grants`"):
        assert way in ran.err
    assert not outside(shell).exists()


def test_without_a_terminal_the_model_is_told_what_holds_with_and_without_an_approver(shell: Shell) -> None:
    session = shell.spawn("exec", "--json", "-m", shell.script("Hello."), "go").lines[0]["thread_id"]
    exported = shell.spawn("sessions", "export", session).out
    assert (
        "<approvals>no person is at this run; what needs an approval is refused, unless an approver attends" in exported
    )


def test_where_the_user_wants_nothing_asked_a_refusal_is_no_failure(shell: Shell) -> None:
    ran = shell.spawn("exec", "-a", "never", "-m", escalating(shell), "go")
    assert ran.code == 0
    assert "no one could answer" not in ran.err
    assert not outside(shell).exists()


# ---- what is shown, and what is understood


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", ApprovalAnswer("allow", "once")),
        (" YES ", ApprovalAnswer("allow", "once")),
        ("c", ApprovalAnswer("allow", "conversation")),
        ("session", ApprovalAnswer("allow", "session")),
        ("p", ApprovalAnswer("allow", "project")),
        ("n", ApprovalAnswer("deny")),
        ("no, not here", ApprovalAnswer("deny", message="not here")),
        ("m", ApprovalAnswer("more")),
        ("", None),
        ("ja", None),
        ("y y", None),
    ],
)
def test_an_answer_is_understood_or_is_none(typed: str, answer: ApprovalAnswer | None) -> None:
    assert parse_answer(typed, SCOPES) == answer


def test_a_scope_that_was_not_offered_is_no_answer() -> None:
    assert parse_answer("p", ["once"]) is None


def test_help_names_only_the_keys_that_were_offered() -> None:
    assert answer_help(["once", "session"]).startswith(
        "y allows it this once; s allows exactly the same again in this session; n"
    )
    assert "p allows exactly the same again in this project (30 days" in answer_help(SCOPES)


def test_where_not_all_is_shown_that_is_said_before_a_yes_is_offered() -> None:
    request = ApprovalRequest(
        "1", "exec", ConversationId("c"), [], "run", "a\nb", [], ["once"], hidden=7, size=9, digest="d"
    )
    lines = [
        "".join(piece if isinstance(piece, str) else piece[0] for piece in line) for line in question_lines(request)
    ]
    assert lines[:3] == ["? run", "  a", "  b"]
    assert lines[3].startswith("  NOT ALL IS SHOWN: 7 of 9 characters are hidden here")


@each_row("filling", [" ", ".", "\u4e16", "e\u0301"])
def test_no_row_of_the_terminal_begins_with_words_of_another(filling: str) -> None:
    """A2: a long command went on at the left edge, where it could look like a line of ours: `in /tmp`."""
    pretending = f"echo {filling * 73}  in /tmp{filling * 80}  sandbox: read-only"
    detail = f"{pretending}\nin /\nThe model's reason, in its own words:\n│ {pretending}"
    request = ApprovalRequest("1", "exec", ConversationId("c"), [], pretending[:200], detail, [], ["once"])
    for width in (20, 40, 80, 81, 82, 83, 132):
        rows = [
            "".join(piece if isinstance(piece, str) else piece[0] for piece in line)
            for line in question_lines(request, width)
        ]
        assert all(cell_width(row) <= width for row in rows)
        ours = [row for row in rows if not row.lstrip(" ").startswith(("│ ", "… ", "? ", "echo "))]
        assert ours == ["  in /", *folded_rows("The model's reason, in its own words:", width)]
        text = "".join(row[2:].removeprefix("│ ").removeprefix("… ") for row in rows)
        assert text.count(pretending) >= 2
    assert [line[0] for line in question_lines(request)[1:]] == [f"  {line}" for line in detail.split("\n")]


def folded_rows(text: str, width: int) -> list[str]:
    return [f"  {row}" for row in folded_lines(text, width) if not row.startswith("… ")]


def test_the_values_of_a_form_are_read_by_their_types() -> None:
    schema = {
        "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"}},
        "required": ["n"],
    }
    number, switch, text = form_fields(ElicitationRequest("1", "fs", "which?", schema))
    assert (number.required, switch.required) == (True, False)
    assert (number.parse(" 7 "), switch.parse("no"), text.parse(" x ")) == (7, False, "x")
    for field, typed in (
        (number, "seven"),
        (number, "1.5"),
        (switch, "perhaps"),
        (FormField("f", {"type": "number"}, True), "x"),
    ):
        with pytest.raises(ValueError, match="answer"):
            field.parse(typed)
