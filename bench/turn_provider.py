"""The provider of `bench turn`: a process on the loopback that speaks Chat Completions, and whose CPU is not counted.

The path says what is answered: `/short` a few words at once, `/tool` a call of the tool `lookup` and then those words,
`/long` 300 words, each in a piece of its own.
"""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection

from tests.models.mock_provider import Told, chat_events

DELTAS = 300
TEXT = "word word word word"
CALL = ("call_1", "lookup", '{"word":"tertulia"}')
_PAUSE_S = 0.0001
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def provider() -> AbstractContextManager[str]:
    """The address of one, for as long as it is needed."""
    return served_by(_serve)


@contextmanager
def served_by(serve: Callable[[Connection], None]) -> Generator[str]:
    """The address of a process that runs this and sends its port first."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(connection: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection.send(server.getsockname()[1])
        while True:
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(peer,), daemon=True).start()


def _answer(peer: socket.socket) -> None:
    text, call = _chunks(Told(text=TEXT)), _chunks(Told(calls=(CALL,)))
    long = _chunks(Told(text=" ".join(["word"] * DELTAS)))
    with peer, peer.makefile("rb") as stream:
        while line := stream.readline():
            length = 0
            while (header := stream.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body, kind = stream.read(length), line.split()[1].split(b"/")[1]
            if kind == b"long":
                peer.sendall(_HEAD)
                for chunk in long:
                    peer.sendall(chunk)
                    time.sleep(_PAUSE_S)
            else:
                answered = kind != b"tool" or body.rfind(b'"role":"tool"') > body.rfind(b'"role":"user"')
                peer.sendall(_HEAD + b"".join(text if answered else call))


def _chunks(reply: Told) -> list[bytes]:
    return [b"%x\r\n%b\r\n" % (len(event), event) for event in (*chat_events(reply), b"")]
