"""A loop in which waiting takes no time: when nobody can go on, the clock jumps to the next timer.

Everything that counts time by the loop or by `LoopClock` moves together, so that what takes minutes is tested in
milliseconds and always in the same order. Where nobody can ever go on, it says so instead of hanging.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec


class _Selector(selectors.DefaultSelector):
    jump: Callable[[float | None], bool]

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        return [] if self.jump(timeout) else super().select(timeout)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Threads are waited for in earnest."""

    def __init__(self) -> None:
        self._virtual = 1_000.0
        self.threads = 0
        selector = _Selector()
        selector.jump = self._jump
        super().__init__(selector)

    def time(self) -> float:
        return self._virtual

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self) -> None:
        self.threads += 1
        await super().shutdown_default_executor()
        self.threads -= 1

    def _thread_ended(self, _: object) -> None:
        self.threads -= 1

    def _jump(self, timeout: float | None) -> bool:
        if self.threads:
            return False
        if timeout is None:
            raise RuntimeError("nobody can go on: everybody waits for somebody else")
        self._virtual += timeout
        return True


class LoopClock:
    """A `Clock` that goes with the loop."""

    def now(self) -> float:
        return 1_700_000_000.0 + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


P = ParamSpec("P")


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of an async function."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def steps(count: int = 20) -> None:
    """Let everybody go as far as they get without time."""
    for _ in range(count):
        await asyncio.sleep(0)


async def threads_ended() -> None:
    """Until nobody is left on the way to the disk."""
    loop = asyncio.get_running_loop()
    while isinstance(loop, VirtualLoop) and loop.threads:
        await steps(1)
