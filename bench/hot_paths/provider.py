"""A provider on the loopback, in a process of its own, whose whole answer arrives at once.

What it does is not counted, and how often a client wakes up for its answer is no accident.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tests.models.mock_provider import Told, chat_events

TOLD = {
    "short": Told(text="word word word word"),
    "long": Told(text=" ".join(["word"] * 300)),
}


@contextmanager
def provider() -> Generator[str]:
    """The address of one. What is asked below `/short` and `/long` is answered so."""
    with subprocess.Popen([sys.executable, "-m", "bench.hot_paths.provider"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def _serve() -> None:
    answers = {name: _streamed(reply) for name, reply in TOLD.items()}
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            peer, _ = server.accept()
            with peer:
                _answer(peer, answers)


def _answer(peer: socket.socket, answers: dict[str, bytes]) -> None:
    with peer.makefile("rb") as requests:
        while line := requests.readline():
            length = 0
            while (header := requests.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            kind = line.split()[1].split(b"/")[1].decode()
            requests.read(length)
            peer.sendall(answers[kind])


def _streamed(reply: Told) -> bytes:
    """An answer in the dialect of Chat Completions, head and body."""
    events = [*chat_events(reply), b""]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)


if __name__ == "__main__":
    _serve()
