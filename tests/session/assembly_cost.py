"""Run as a program: what one short message takes, counted in a fresh process, as JSON on the last line.

`session` enters a session, sends a message and closes it, twice; the second time its live objects are counted. `exec`
is the verb of the command line with the arguments that follow. A file is touched when one of its functions runs;
importing a module and making its classes does not count, nor does a function that runs for an import.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import tertulia

SOURCE = f"{Path(tertulia.__file__).parent}/"


class Trace:
    """The files of the package in which functions run, by phase; every thread counts."""

    def __init__(self) -> None:
        self.phase = "begin"
        self._files: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Trace:
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def files(self, *phases: str) -> dict[str, str]:
        """Each file with one of its functions that ran."""
        return {
            file: name for phase in phases or self._files for file, name in sorted(self._files.get(phase, {}).items())
        }

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # The body of a module or class is no function: it has no fast local variables.
        if event != "call" or not code.co_filename.startswith(SOURCE) or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        files = self._files.setdefault(self.phase, {})
        file = code.co_filename.removeprefix(SOURCE)
        if file not in files and not _is_importing(frame):
            files[file] = code.co_qualname


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(SOURCE):
            return True
        frame = frame.f_back
    return False


def _objects() -> dict[int, object]:
    return {id(thing): thing for thing in gc.get_objects() if type(thing).__module__.partition(".")[0] == "tertulia"}


async def _one_message(trace: Trace) -> dict[str, int]:
    from tertulia.testing import ScriptedModel

    session = tertulia.Session.start(tertulia.Settings(model=ScriptedModel(["hello"])))
    before = _objects()
    trace.phase = "assembly"
    async with session:
        trace.phase = "message"
        made = Counter(type(thing).__qualname__ for id, thing in _objects().items() if id not in before)
        reply = await session.root.message("hi")
        trace.phase = "close"
    assert reply.text == "hello", reply
    return dict(made)


def _modules() -> list[str]:
    return sorted(name for name in sys.modules if name.partition(".")[0] == "tertulia")


def of_session() -> dict[str, Any]:
    trace = Trace()
    with trace:
        asyncio.run(_one_message(trace))
    modules = _modules()
    gc.collect()
    gc.disable()
    objects = asyncio.run(_one_message(Trace()))
    return {
        "assembly": trace.files("assembly"),
        "all": trace.files("assembly", "message", "close"),
        "modules": modules,
        "objects": objects,
    }


def of_exec(arguments: list[str]) -> dict[str, Any]:
    trace = Trace()
    with trace:
        from tertulia.cli.main import main

        try:
            code: object = main(["exec", *arguments])
        except SystemExit as end:
            code = end.code
    return {"all": trace.files(), "modules": _modules(), "exit": code}


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    sys.stdout.write(json.dumps(of_session() if kind == "session" else of_exec(rest)) + "\n")
