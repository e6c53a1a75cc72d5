"""The interface: what a step is, and which parsers keep the contract of one."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from tertulia.conversation.executor_host import TaskExecutorHost
from tertulia.executors.command.claude_stream import ClaudeStream
from tertulia.executors.command.codex_jsonl import CodexJsonl
from tertulia.executors.command.command_executor import PlainText
from tertulia.executors.executor import (
    Assignment,
    ExecutorHost,
    Parser,
    PermissionAnswer,
    PermissionQuestion,
    RunEnd,
    Step,
)
from tests.executors.recorded import feed, finish
from tests.tables import each_row

PARSERS: list[type[CodexJsonl] | type[ClaudeStream] | type[PlainText]] = [CodexJsonl, ClaudeStream, PlainText]
JUNK = [b"", b"\n\n\n", b"\0" * 100, b"<!doctype html><p>502", b"{" * 10_000, b'{"type":' * 10_000, b"\xff\xfe\n" * 50]


@each_row("step", get_args(Step))
def test_steps_are_frozen(step: type[msgspec.Struct]) -> None:
    assert step.__struct_config__.frozen
    assert step.__doc__


@pytest.mark.parametrize("make", PARSERS)
@each_row("junk", JUNK)
def test_every_parser_takes_any_bytes_and_ends_exactly_once(make: type[CodexJsonl], junk: bytes) -> None:
    """Issue 11, bad input: HTML, floods, nothing at all."""
    parser: Parser = make()
    steps = feed(parser, junk)
    assert not [step for step in steps if isinstance(step, RunEnd)]
    assert [isinstance(step, RunEnd) for step in finish(parser)][-1:] == [True]


def test_an_assignment_without_more_is_a_fresh_run() -> None:
    assignment = Assignment("do it", "/workspace")
    assert (assignment.resume, assignment.additions, dict(assignment.variables)) == (None, (), {})


def test_a_change_of_what_an_agent_is_told_is_seen() -> None:
    """X-50: texts that only join alike are different ones; halves of characters do no harm."""
    rows = [("a", "b"), ("ab",), ("a\ud800", "b"), ()]
    assert len({Assignment("do it", "/", additions=additions).digest for additions in rows}) == 4
    first = Assignment("do it", "/", additions=("a", "b"))
    assert Assignment("go on", "/", resume="t", told=first.digest, additions=("a", "b")).is_told_already
    assert not Assignment("go on", "/", resume="t", told=first.digest, additions=("c",)).is_told_already
    assert not Assignment("anew", "/", told=first.digest, additions=("a", "b")).is_told_already


def test_a_no_is_no_lasting_one() -> None:
    """Strictest wins: what nobody said is not allowed for longer."""
    assert not PermissionAnswer(allowed=False).lasting
    assert PermissionQuestion(doing="read", title="t", detail="d", words=("w",)).paths == ()


def test_the_host_of_a_session_is_one() -> None:
    """Every question has somebody who answers it."""
    names = {name for name in vars(ExecutorHost) if not name.startswith("_")}
    assert names == {"permit", "read", "write", "start", "allowed_by"}
    assert names <= set(dir(TaskExecutorHost))
