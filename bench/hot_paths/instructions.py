"""Counts the instructions of Python that a process executes, in all its threads."""

from __future__ import annotations

import sys
import threading
from itertools import count
from types import CodeType, FrameType
from typing import Any


class InstructionCounter:
    """Counts from `start` to `stop`. Threads that run already when it starts may be left out."""

    def __init__(self) -> None:
        # A step of this is one call into C: threads lose no count between reading and writing.
        self._ticks = count()
        self._reads = 0

    @property
    def total(self) -> int:
        """Instructions so far."""
        self._reads += 1
        return next(self._ticks) - self._reads

    if sys.version_info >= (3, 12):

        def start(self) -> None:
            """Begin to count."""
            tool, event = sys.monitoring.PROFILER_ID, sys.monitoring.events.INSTRUCTION
            sys.monitoring.use_tool_id(tool, "hot paths")
            sys.monitoring.register_callback(tool, event, self._executed)
            sys.monitoring.set_events(tool, event)

        def stop(self) -> None:
            """End counting."""
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)

        def _executed(self, code: CodeType, offset: int) -> None:
            next(self._ticks)

    else:

        def start(self) -> None:
            """Begin to count."""
            threading.settrace(self._enter)
            sys.settrace(self._enter)

        def stop(self) -> None:
            """End counting."""
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]  # what `settrace` takes for "no more"

        def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            return self._step

        def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                next(self._ticks)
            return self._step
