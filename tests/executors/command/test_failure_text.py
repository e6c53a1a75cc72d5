"""Why a run failed, in one sentence."""

from __future__ import annotations

from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.command.failure_text import ErrorOutput, failure_sentence, not_started_reason
from tertulia.sandbox.runner import CommandResult, Output
from tests.tables import each_row

AGENT = ExecutorDefinition(command=("agent",), install="get agent", login="agent login")
OLD = "(this version of `agent` may not fit; the newest comes with `get agent`)"
NOTHING = Output(b"", b"", 0)


def ended(code: int, reason: str | None = None) -> CommandResult:
    return CommandResult(code, "exited", NOTHING, 0.1, reason=reason)


def errors(text: str = "") -> ErrorOutput:
    heard = ErrorOutput()
    heard.hear(text.encode())
    return heard


def test_the_last_lines_are_kept_and_no_more() -> None:
    """S003-30: stderr drained, its tail in the error."""
    heard = ErrorOutput()
    for number in range(10_000):
        heard.hear(f"line {number} \x1b[31mred\x1b[0m\r\n\n".encode())
    assert heard.last_lines() == " / ".join(f"line {number} red" for number in range(9_995, 10_000))
    assert len(heard._tail) <= 2 * 16_384
    assert len(errors("x" * 50_000).last_lines()) == 1_000


def test_a_screen_obeys_nothing_of_it() -> None:
    """HARDENING A15, bad input of issue 11: titles, colours in one byte, orders of direction, NUL."""
    text = "a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\x9b31md\u202ee\u2066f\0g\x7fh\x90i\n\x1b]never ended\nz"
    assert errors(text).last_lines() == "abcdefghi / z"


@each_row(
    ("expected", "code", "stderr", "sentence"),
    [
        ("bad catalog in line 14012", 1, "", "bad catalog in line 14012"),
        ("it broke", 1, "noise", "it broke"),
        ("", 1, "", "agent exited with code 1 and said nothing"),
        ("", 137, "killed", "agent exited with code 137: killed"),
        ("", 0, "", "the output of agent ended before it said how the task did"),
        ("", 0, "oh", "the output of agent ended before it said how the task did: oh"),
        ("401 Unauthorized", 1, "", "401 Unauthorized (log in with `agent login`)"),
        ("", 1, "Please run /login", "agent exited with code 1: Please run /login (log in with `agent login`)"),
        (
            "",
            2,
            "error: unknown option '--x'",
            f"agent exited with code 2: error: unknown option '--x' {OLD}",
        ),
        (
            "",
            1,
            "Error: config profile `tertulia-1` not found",
            f"agent exited with code 1: Error: config profile `tertulia-1` not found {OLD}",
        ),
    ],
)
def test_the_sentence_says_what_happened_and_what_to_do(expected: str, code: int, stderr: str, sentence: str) -> None:
    assert failure_sentence("agent", AGENT, expected, ended(code), errors(stderr).last_lines()) == sentence


def test_an_agent_that_says_neither_how_to_get_it_nor_how_to_log_in_gets_no_advice() -> None:
    bare = ExecutorDefinition(command=("agent",))
    assert failure_sentence("agent", bare, "not logged in", ended(1), "") == "not logged in"
    assert failure_sentence("agent", bare, "unknown option", ended(1), "").endswith("may not fit)")
    assert not_started_reason("agent", bare, ended(127, "No such file")) == (
        "agent is not installed: there is no `agent` in PATH"
    )


def test_a_program_that_is_not_there_is_named_with_the_way_to_get_it() -> None:
    """Bad input of issue 11: which one, how to install."""
    assert not_started_reason("codex", AGENT, ended(127, "No such file or directory")) == (
        "codex is not installed: there is no `agent` in PATH; install it with `get agent`"
    )
    assert not_started_reason("codex", AGENT, ended(126, "Permission denied")) == (
        "codex cannot be started: `agent`: Permission denied"
    )
    assert not_started_reason("codex", AGENT, ended(127)) is None
