"""The program that runs llama.cpp, started by `local_wire` in a process of its own.

A process of its own, because loading holds the interpreter's lock for half a second, because a fault in native code
ends the process that it happens in, and because a process can always be stopped. It knows the standard library and
xllamacpp, and nothing of ours.

Its one inherited socket brings it a connection for each request. A line comes in, the body of a Chat Completions
request; lines go out, its chunks, and at last `[DONE]`. The requester may hang up at any time by shutting down its
sending half; when the model has stopped, the program closes its half too. A connection that ends otherwise means that
the program has died. When the inherited socket ends, so does the program.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

UNLOADABLE = 3
"""The exit code where the weights cannot be read."""

_TEMPLATE = Path(__file__).with_name("chatml.jinja")
_STEP = 64
"""Tokens of a prompt between two checks for a stop: a third of a second on a slow core."""
_REMEMBERED_MIB = 256
"""The size of the prompt cache, for conversations that take turns: a cached prompt is not read again."""
_PATIENCE_S = 0.05


def load(weights: str, context_window: int) -> Any:
    """The server that has the weights in memory. RuntimeError when they cannot be read."""
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

    llama_cpp: Any = xllamacpp
    params = llama_cpp.CommonParams()
    params.model.path = weights
    params.chat_template = _TEMPLATE.read_text(encoding="utf-8")
    params.prefill_assistant = False
    params.n_ctx = context_window
    params.n_batch = params.n_ubatch = _STEP
    params.cache_ram_mib = _REMEMBERED_MIB
    params.warmup = False
    params.verbosity = -1
    # Fewer threads than cores: each step waits for all threads, and one busy core would make a model ten times slower.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, min(4, (os.cpu_count() or 1) // 2))
    # xllamacpp cannot run without its HTTP server. It listens on a socket file that is removed before any process
    # connects, in a private directory, and wants a random key.
    params.api_keys = [secrets.token_hex(32)]
    params.endpoint_slots = params.ui = False
    with tempfile.TemporaryDirectory() as place:
        # A relative name, because socket paths have a short limit.
        os.chdir(place)
        params.hostnames = ["llama.sock"]
        try:
            return llama_cpp.Server(params)
        finally:
            os.chdir("/")


class RequestLine:
    """One request at a time, first come, first served: a lock would let the quickest pass those that wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: deque[object] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def wait(self, given_up: Callable[[], bool]) -> bool:
        """Wait for the turn of a request; False where its client gave up before."""
        request = object()
        with self._changed:
            self._requests.append(request)
            while self._requests[0] is not request:
                self._changed.wait(_PATIENCE_S)
                if given_up():
                    self._requests.remove(request)
                    self._changed.notify_all()
                    return False
        return True

    def leave(self) -> None:
        """End the turn of the request that was answered."""
        with self._changed:
            self._requests.popleft()
            self._changed.notify_all()


def serve(control: socket.socket, server: Any) -> None:
    """Answer requests, one at a time, until the control socket is closed."""
    turn = RequestLine()
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        for handle in handles:
            threading.Thread(target=answer, args=(socket.socket(fileno=handle), server, turn), daemon=True).start()


def answer(connection: socket.socket, server: Any, turn: RequestLine) -> None:
    """Read one request and answer it when it is its turn, unless the client has hung up."""
    with connection, connection.makefile("rb") as incoming:
        body = incoming.readline()
        if not turn.wait(lambda: hung_up(connection)):
            return
        try:
            if body.endswith(b"\n") and not hung_up(connection):
                speak(connection, server, body)
        finally:
            turn.leave()
        with suppress(OSError):
            connection.recv(1)


def speak(connection: socket.socket, server: Any, body: bytes) -> None:
    """Have the model answer, and send its chunks."""

    def send(line: bytes) -> bool:
        """Send a line; True stops the model."""
        if hung_up(connection):
            return True
        try:
            connection.sendall(line + b"\n")
        except OSError:
            return True
        return False

    try:
        server.handle_chat_completions(body, send)
    except (RuntimeError, ValueError) as error:
        send(json.dumps({"error": {"message": str(error), "type": "invalid_request_error"}}).encode())
    send(b"[DONE]")


def hung_up(connection: socket.socket) -> bool:
    """Whether the other side has shut down its half; it sends nothing after its one line."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def main(arguments: Sequence[str]) -> int:
    """Load, then serve: a socket's number, the weights, the window."""
    with socket.socket(fileno=int(arguments[0])) as control:
        try:
            server = load(arguments[1], int(arguments[2]))
        except (ImportError, RuntimeError, ValueError):
            return UNLOADABLE
        serve(control, server)
    return 0


if __name__ == "__main__":
    # Not sys.exit, which would wait for an answer in progress.
    os._exit(main(sys.argv[1:]))
