"""The output of an executor, whole and in pieces."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tertulia.executors.executor import Parser, RunFailed, RunFinished, RunInterrupted, Step
from tests.executors.recorded import feed, finish
from tests.fuzz.targets import cuts, pieces

_LIMIT = 3_000


def check(make: Callable[[int], Parser], data: bytes) -> None:
    """However it is cut, the steps are the same; all can be written down, and the last one is how it ended."""
    places, whole = cuts(data)
    steps = _steps(make(_LIMIT), pieces(places, whole))
    assert steps == _steps(make(_LIMIT), [whole])
    assert isinstance(steps[-1], RunFinished | RunFailed | RunInterrupted)
    msgspec.json.decode(msgspec.json.encode(steps))


def _steps(parser: Parser, chunks: list[bytes]) -> list[Step]:
    steps = [step for chunk in chunks for step in feed(parser, chunk)]
    return [*steps, *finish(parser)]
