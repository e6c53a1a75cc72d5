"""What real agents printed, and ways to break it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from tertulia.executors.executor import Parser, Step

T = TypeVar("T", covariant=True)


class Reader(Protocol[T]):
    """A parser, or a reader of lines."""

    async def feed(self, chunk: bytes) -> T: ...

    async def end(self) -> T: ...


STREAMS = Path(__file__).parent / "streams"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def recorded(name: str) -> bytes:
    """Codex 0.166 and Claude Code 2.1.325, run against a model of our own on the loopback."""
    return (STREAMS / f"{name}.jsonl").read_bytes()


def names(agent: str) -> list[str]:
    return sorted(path.stem for path in STREAMS.glob(f"{agent}_*.jsonl"))


def lines_of(*objects: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in objects)


def drive(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine comes to that never waits for anything but its next turn."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value


def feed(reader: Reader[T], chunk: bytes) -> T:
    """What a parser, or a reader of lines, makes of a chunk."""
    return drive(reader.feed(chunk))


def finish(reader: Reader[T]) -> T:
    """What it makes of the end."""
    return drive(reader.end())


def understood(parser: Parser, output: bytes) -> list[Step]:
    """All steps but the ending, which is the last and only one of its kind."""
    *steps, _ = [*feed(parser, output), *finish(parser)]
    return steps


def in_pieces(parser: Parser, output: bytes, sizes: list[int]) -> list[Step]:
    """The steps of the same output, cut into chunks of these sizes over and over."""
    steps: list[Step] = []
    place = number = 0
    while place < len(output):
        size = sizes[number % len(sizes)]
        steps += feed(parser, output[place : place + size])
        place, number = place + size, number + 1
    return [*steps, *finish(parser)]


@st.composite
def mutated(draw: Callable[..., Any], agent: str) -> bytes:
    """A recording with some of its values replaced, and some of its bytes too."""
    objects = [json.loads(line) for line in recorded(draw(st.sampled_from(names(agent)))).splitlines()]
    for _ in range(draw(st.integers(0, 6))):
        _mutate(draw, draw(st.sampled_from(objects)))
    order = draw(st.permutations(objects)) if draw(st.booleans()) else objects
    output = bytearray(b"\n".join(json.dumps(entry).encode() for entry in order))
    for _ in range(draw(st.integers(0, 4))):
        output[draw(st.integers(0, len(output) - 1))] = draw(st.integers(0, 255))
    return bytes(output)


def _mutate(draw: Callable[..., Any], node: Any) -> None:
    """Walk down at random and put something else there."""
    while node:
        keys = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or draw(st.booleans()):
            if isinstance(node, dict) and draw(st.booleans()):
                del node[key]
            else:
                node[key] = draw(JSON)
            return
        node = node[key]
