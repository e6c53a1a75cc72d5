"""A bar for long work: on a terminal that can rewrite a line, not before half a second, ten times a second at most."""

from __future__ import annotations

import io

import pytest

from tertulia.cli.output.progress import ProgressBar
from tertulia.cli.output.terminal import TerminalOutput
from tests.cli.output.test_terminal import Screen
from tests.rollout.still_clock import FakeClock
from tests.tables import each_row


def drawn(stream: io.StringIO, variables: dict[str, str], *, step_s: float = 0.2) -> list[str]:
    """The lines that a work of ten steps drew, one over the other."""
    clock = FakeClock()
    with ProgressBar(TerminalOutput(stream, variables), "counting", clock=clock) as bar:
        for count in range(10):
            bar(count, 10)
            clock.advance(step_s)
    return stream.getvalue().split("\r\x1b[K")


def test_it_begins_after_half_a_second_and_leaves_nothing_behind() -> None:
    first, *lines, last = drawn(Screen(), {"NO_COLOR": "1"})

    assert first == last == ""
    assert lines[0] == "counting ███████░░░░░░░░░░░░░░░░░  30% of 10"
    assert lines[-1] == "counting █████████████████████░░░  90% of 10"
    assert len(lines) == 7


def test_work_that_is_soon_done_draws_nothing() -> None:
    assert drawn(Screen(), {}, step_s=0.05) == [""]


def test_it_is_drawn_ten_times_a_second_at_most() -> None:
    clock, stream = FakeClock(), Screen()
    bar = ProgressBar(TerminalOutput(stream, {}), "counting", clock=clock)
    clock.advance(1)
    for count in range(1_000):
        bar(count, 1_000)
    assert stream.getvalue().count("counting") == 1


@each_row("variables", [{"TERM": "dumb"}, {"ACCESSIBLE": "1"}])
def test_a_terminal_on_which_nothing_is_rewritten_gets_none(variables: dict[str, str]) -> None:
    assert drawn(Screen(), variables) == [""]


def test_a_pipe_gets_none() -> None:
    assert drawn(io.StringIO(), {}) == [""]


def test_it_is_cleared_when_the_work_fails() -> None:
    clock, stream = FakeClock(), Screen()
    with (
        pytest.raises(ValueError, match="half"),
        ProgressBar(TerminalOutput(stream, {}), "counting", clock=clock) as bar,
    ):
        clock.advance(1)
        bar(1, 2)
        raise ValueError("half")
    assert stream.getvalue().endswith("\r\x1b[K")
