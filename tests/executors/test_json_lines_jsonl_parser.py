"""What parsers of JSON lines have in common."""

from __future__ import annotations

from collections.abc import Iterable

from tertulia.executors.executor import ForeignOutput, Notice, RunFinished, RunInterrupted, Step
from tertulia.executors.json_lines import JsonlParser, Line
from tests.executors.recorded import feed, finish


class Simple(JsonlParser):
    """Knows `note` and `over`."""

    def _understood(self, line: Line) -> Iterable[Step] | None:
        match line:
            case {"note": str() as note}:
                self._ending = RunInterrupted()
                return [Notice(note)]
            case {"over": str() as text}:
                self._ending = RunFinished(text)
                return []
            case _:
                return None


def test_it_has_ended_when_the_agent_says_so_and_not_when_that_goes_on() -> None:
    """S003-26: the last word counts, and output without one was interrupted."""
    parser = Simple()
    assert not parser.ended
    assert feed(parser, b'{"over":"a"}\n') == []
    assert parser.ended
    assert feed(parser, b'{"note":"b"}\n{"over":') == [Notice("b")]
    assert not parser.ended
    assert finish(parser) == [RunInterrupted()]
    assert parser.passed_over == 1


def test_the_last_line_needs_no_end_and_what_is_not_known_is_kept() -> None:
    """S003-26, S003-27"""
    parser = Simple(max_line_bytes=20)
    assert feed(parser, b'{"what":1}\n' + b"x" * 21 + b'\n{"over":"c"}') == [
        ForeignOutput({"what": 1}),
        ForeignOutput({"dropped_line_bytes": 21}),
    ]
    assert finish(parser) == [RunFinished("c")]
    assert parser.passed_over == 0
