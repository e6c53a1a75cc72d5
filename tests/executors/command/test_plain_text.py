"""An agent that only talks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.command.command_executor import PlainText
from tertulia.executors.executor import AgentDelta, AgentText, ForeignOutput, RunFinished
from tests.executors.recorded import feed, finish, in_pieces


def test_all_that_it_prints_is_the_answer() -> None:
    parser = PlainText()
    assert feed(parser, "é".encode()[:1]) == []
    assert feed(parser, "é".encode()[1:] + b"t\n") == [AgentDelta("text", "ét\n")]
    assert not parser.ended
    assert finish(parser) == [AgentText("text", "ét"), RunFinished("ét")]
    assert parser.passed_over == 0


def test_silence_is_an_end_too() -> None:
    assert finish(PlainText()) == [RunFinished(None)]


def test_a_flood_is_bounded_and_said() -> None:
    """Issue 11, bad input: floods of output."""
    parser = PlainText(max_bytes=10)
    assert feed(parser, b"x" * 8 + b"y" * 8) == [AgentDelta("text", "xxxxxxxxyy")]
    assert feed(parser, b"z") == []
    assert finish(parser) == [
        AgentText("text", "xxxxxxxxyy"),
        ForeignOutput({"dropped_bytes": 7}),
        RunFinished("xxxxxxxxyy"),
    ]


@given(st.binary(max_size=200), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_any_bytes_in_any_pieces_give_the_same_answer(output: bytes, sizes: list[int]) -> None:
    steps = in_pieces(PlainText(), output, sizes)
    text = "".join(step.text for step in steps if isinstance(step, AgentDelta))
    assert steps[-1] == RunFinished(text.strip() or None)
    assert text == output.decode("utf-8", "replace")
