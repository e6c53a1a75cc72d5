"""Stands where xllamacpp would stand, in the process that runs it: what is in the weights' file says how it behaves.

Beside that file it keeps a diary, a line of JSON for each thing that happens to it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Callback = Callable[[bytes], bool]


class CommonParams(SimpleNamespace):
    """Takes anything."""

    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Server:
    """A model that plays one act, again and again."""

    def __init__(self, params: Any) -> None:
        weights = Path(params.model.path)
        self.act = weights.read_text().strip()
        self._diary = weights.with_suffix(".diary")
        self.starts = sum(line.startswith('{"started"') for line in self._read())
        plain = {name: value for name, value in vars(params).items() if isinstance(value, int | list)}
        self._write("started", {"pid": os.getpid(), **plain})
        if self.act == "damaged":
            raise RuntimeError("Failed to init server, please check the input params.")

    def handle_chat_completions(self, body: bytes, callback: Callback) -> None:
        """As xllamacpp does it: a chunk for each call, until it is told to stop."""
        assert isinstance(body, bytes), "a body of another type would be answered in another type"
        self._write("asked", json.loads(body))
        for line in getattr(self, f"_{self.act}")():
            if callback(line):
                self._write("stopped", True)
                return

    def _read(self) -> list[str]:
        return self._diary.read_text().splitlines() if self._diary.exists() else []

    def _write(self, what: str, value: object) -> None:
        with self._diary.open("a") as diary:
            diary.write(json.dumps({what: value}) + "\n")

    # ---- the acts

    def _answers(self) -> Iterator[bytes]:
        yield _chunk(role="assistant", content=None)
        for word in ("One ", "two ", "three."):
            yield _chunk(content=word)
        yield from _ending("stop")

    def _thinks(self) -> Iterator[bytes]:
        yield _chunk(reasoning_content="Let me ")
        yield _chunk(reasoning_content="see.")
        yield _chunk(content="Yes.")
        yield from _ending("stop")

    def _calls_tools(self) -> Iterator[bytes]:
        for index, name in enumerate(("shell", "update_plan")):
            function = {"name": name, "arguments": "{}"}
            yield _chunk(tool_calls=[{"index": index, "id": f"call_{index}", "type": "function", "function": function}])
        yield from _ending("tool_calls")

    def _says_nothing(self) -> Iterator[bytes]:
        yield from _ending("stop")

    def _retries(self) -> Iterator[bytes]:
        yield _chunk(content="One ")
        if self.starts % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from _ending("stop")

    def _dies(self) -> Iterator[bytes]:
        yield _chunk(content="One ")
        os.kill(os.getpid(), signal.SIGKILL)

    def _fails(self) -> Iterator[bytes]:
        yield json.dumps({"error": {"code": 500, "message": "no memory left", "type": "server_error"}}).encode()

    def _refuses(self) -> Iterator[bytes]:
        raise ValueError("Expected 'messages' to be an array")
        yield b""

    def _overflows(self) -> Iterator[bytes]:
        message = "request (15031 tokens) exceeds the available context size (8192 tokens), try increasing it"
        yield json.dumps({"error": {"code": 400, "message": message, "type": "exceed_context_size_error"}}).encode()

    def _hangs(self) -> Iterator[bytes]:
        """Reads a prompt that has no end."""
        for read in range(1_000_000):
            threading.Event().wait(0.005)
            yield _chunk({"prompt_progress": {"processed": read}}, role="assistant", content=None)

    def _stalls(self) -> Iterator[bytes]:
        yield _chunk(content="One ")
        yield from self._hangs()

    def _sticks(self) -> Iterator[bytes]:
        """In native code that never looks up."""
        yield _chunk(content="One ")
        threading.Event().wait()


def _chunk(extra: dict[str, Any] | None = None, **delta: Any) -> bytes:
    return json.dumps({"choices": [{"finish_reason": None, "index": 0, "delta": delta}], **(extra or {})}).encode()


def _ending(reason: str) -> Iterator[bytes]:
    yield json.dumps({"choices": [{"finish_reason": reason, "index": 0, "delta": {}}]}).encode()
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    yield json.dumps({"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 7}}}).encode()
