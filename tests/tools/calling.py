"""What the tests of tools share: calls, contexts and a tool that does what a test says."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tertulia.policy.rights import TOP
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId, TaskId
from tertulia.protocol.items import ToolCall
from tertulia.protocol.tool_spec import ToolKind, ToolSpec
from tertulia.tools.tool import CallContext, Outcome, Result


class HandClock:
    """Time that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


@contextmanager
def at_most_100_ms() -> Iterator[None]:
    """Of CPU time for the thing itself: neither a busy machine nor the garbage of other tests fails a test.

    Under a tracer it may take ten times as long.
    """
    gc.disable()
    began = time.thread_time()
    try:
        yield
        spent = time.thread_time() - began
    finally:
        gc.enable()
    assert spent < (0.1 if sys.gettrace() is None else 1.0)


def call(name: str, arguments: Any = "{}", call_id: str = "call-1", kind: Any = "function") -> ToolCall:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(ItemId(f"item-{call_id}"), CallId(call_id), name, text, kind)


def context(
    publish: Callable[[EventData], object] = lambda _: None,
    *,
    call_id: str = "call-1",
    clock: HandClock | None = None,
    max_output_bytes: int | None = None,
) -> CallContext:
    limits = msgspec.structs.replace(TOP.limits, max_output_bytes=max_output_bytes)
    return CallContext(
        conversation_id=ConversationId("conversation"),
        task_id=TaskId("task"),
        call_id=CallId(call_id),
        cwd="/",
        rights=msgspec.structs.replace(TOP, limits=limits),
        publish=publish,
        clock=clock or HandClock(),
    )


class StubTool:
    """Checks and runs as it is told, and counts."""

    def __init__(
        self,
        name: str,
        run: Callable[[Any, CallContext], Any] = lambda arguments, call: Result("done"),
        *,
        check: Callable[[Any, CallContext], None] = lambda arguments, call: None,
        parameters: dict[str, Any] | None = None,
        parallel_safe: bool = False,
        kind: ToolKind = "function",
    ) -> None:
        self.spec = ToolSpec.define(name, "A tool of a test.", parameters, kind=kind)
        self.parallel_safe = parallel_safe
        self.read_only = False
        self.checks = 0
        self.runs: list[Any] = []
        self._check = check
        self._run = run

    def check(self, arguments: Any, call: CallContext) -> None:
        self.checks += 1
        self._check(arguments, call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        self.runs.append(arguments)
        outcome = self._run(arguments, call)
        return await outcome if hasattr(outcome, "__await__") else outcome
