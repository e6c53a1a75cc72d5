"""A scene that plays in a loop of its own, in which waiting takes no time and which begins at zero."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.mcp.virtual_time import LoopClock, VirtualLoop

__all__ = ["LoopClock", "run"]

T = TypeVar("T")


class _FromZero(VirtualLoop):
    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end, however long that takes in there."""
    with asyncio.Runner(loop_factory=_FromZero) as runner:
        return runner.run(work)
