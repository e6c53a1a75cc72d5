"""The program that runs llama.cpp, here in our own process and with a model that is played."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tertulia.models.local import llama_program
from tertulia.models.local.llama_program import RequestLine
from tests.deadlines import HANG_S
from tests.models.local_staging import FAKE

DEADLINE = HANG_S


class Model:
    """Says words; `said` is set after the first."""

    def __init__(self, *words: bytes, error: Exception | None = None) -> None:
        self.words = words
        self.error = error
        self.asked: list[bytes] = []
        self.stopped = False
        self.said = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def handle_chat_completions(self, body: bytes, callback: Any) -> None:
        self.asked.append(body)
        if self.error is not None:
            raise self.error
        for word in self.words:
            if callback(word):
                self.stopped = True
                return
            self.said.set()
            assert self.go_on.wait(DEADLINE)


class Asker:
    """The other end of a connection that is being answered in a thread."""

    def __init__(self, model: Model, turn: RequestLine) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(DEADLINE)
        self.thread = threading.Thread(target=llama_program.answer, args=(theirs, model, turn), daemon=True)
        self.thread.start()

    def ask(self, body: bytes = b"{}\n") -> None:
        self.socket.sendall(body)

    def hang_up(self) -> bytes:
        """What was still to be heard; returns when the other side has closed."""
        self.socket.shutdown(socket.SHUT_WR)
        with self.socket.makefile("rb") as incoming:
            rest = incoming.read()
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()
        self.socket.close()
        return rest

    def lines(self, count: int) -> list[bytes]:
        with self.socket.makefile("rb", buffering=0) as incoming:
            return [incoming.readline() for _ in range(count)]


@contextmanager
def taken(turn: RequestLine) -> Iterator[None]:
    """While another request is answered."""
    assert turn.wait(lambda: False)
    try:
        yield
    finally:
        turn.leave()


@pytest.fixture
def turn() -> Iterator[RequestLine]:
    line = RequestLine()
    yield line
    assert len(line) == 0


def test_what_the_model_says_goes_out_line_by_line_and_then_done(turn: RequestLine) -> None:
    asker = Asker(model := Model(b"one", b"two"), turn)
    asker.ask(b'{"a": 1}\n')
    assert asker.lines(3) == [b"one\n", b"two\n", b"[DONE]\n"]
    assert model.asked == [b'{"a": 1}\n']
    assert asker.hang_up() == b""


def test_it_waits_for_the_asker_to_hang_up(turn: RequestLine) -> None:
    asker = Asker(Model(b"one"), turn)
    asker.ask()
    assert asker.lines(2)[-1] == b"[DONE]\n"
    assert asker.thread.is_alive()
    asker.hang_up()


def test_hanging_up_stops_the_model_at_its_next_word(turn: RequestLine) -> None:
    model = Model(b"one", b"two", b"three")
    model.go_on.clear()
    asker = Asker(model, turn)
    asker.ask()
    assert model.said.wait(DEADLINE)
    asker.socket.shutdown(socket.SHUT_WR)
    model.go_on.set()
    assert asker.hang_up() == b"one\n"
    assert model.stopped


def test_an_asker_that_is_gone_altogether_stops_it_too(turn: RequestLine) -> None:
    model = Model(*[b"x" * 100_000] * 100)
    asker = Asker(model, turn)
    asker.ask()
    assert model.said.wait(DEADLINE)
    asker.socket.close()
    asker.thread.join(DEADLINE)
    assert model.stopped


def test_what_it_refuses_is_told_as_an_error(turn: RequestLine) -> None:
    asker = Asker(Model(error=ValueError("no messages")), turn)
    asker.ask()
    error, done = asker.lines(2)
    assert json.loads(error) == {"error": {"message": "no messages", "type": "invalid_request_error"}}
    assert done == b"[DONE]\n"
    asker.hang_up()


@pytest.mark.parametrize("body", [b"", b'{"half": '])
def test_a_request_that_is_not_whole_is_not_passed_on(turn: RequestLine, body: bytes) -> None:
    asker = Asker(model := Model(b"one"), turn)
    asker.ask(body)
    assert asker.hang_up() == b""
    assert model.asked == []


def test_only_one_is_answered_at_a_time(turn: RequestLine) -> None:
    model = Model(b"one")
    with taken(turn):
        asker = Asker(model, turn)
        asker.ask()
        waiting = asker.thread
        waiting.join(3 * llama_program._PATIENCE_S)
        assert waiting.is_alive()
        assert model.asked == []
    assert asker.lines(2) == [b"one\n", b"[DONE]\n"]
    asker.hang_up()


def test_who_hangs_up_in_the_queue_leaves_it_at_once(turn: RequestLine) -> None:
    model = Model(b"one")
    with taken(turn):
        asker = Asker(model, turn)
        asker.ask()
        assert asker.hang_up() == b""
    assert model.asked == []


def test_requests_are_answered_in_the_order_in_which_they_came(turn: RequestLine) -> None:
    """Issue 20, 7: branches that share the embedded model take turns, also where one of them gives up."""
    model, askers = Model(b"one"), []
    with taken(turn):
        for number in range(5):
            askers.append(asker := Asker(model, turn))
            asker.ask(b"%d\n" % number)
            while len(turn) < 2 + number:
                asker.thread.join(0.001)
        assert askers.pop(2).hang_up() == b""
    for asker in askers:
        assert asker.lines(2) == [b"one\n", b"[DONE]\n"]
        asker.hang_up()
    assert model.asked == [b"%d\n" % number for number in (0, 1, 3, 4)]


def test_it_serves_what_its_socket_brings_until_that_ends() -> None:
    ours, control = socket.socketpair()
    serving = threading.Thread(target=llama_program.serve, args=(control, Model(b"one")), daemon=True)
    serving.start()
    askers: list[socket.socket] = []
    for _ in range(3):
        asker, theirs = socket.socketpair()
        asker.settimeout(DEADLINE)
        socket.send_fds(ours, [b"?"], [theirs.fileno()])
        theirs.close()
        askers.append(asker)
    for asker in askers:
        asker.sendall(b"{}\n")
        with asker.makefile("rb", buffering=0) as incoming:
            assert [incoming.readline(), incoming.readline()] == [b"one\n", b"[DONE]\n"]
        asker.shutdown(socket.SHUT_WR)
        assert asker.recv(1) == b""
        asker.close()
    ours.close()
    serving.join(DEADLINE)
    assert not serving.is_alive()
    control.close()


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file, and a llama.cpp that would play what it says; the program changes its directory."""
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.gguf").write_text("answers")
    yield tmp_path / "weights.gguf"
    sys.modules.pop("xllamacpp", None)


def test_nobody_else_can_reach_the_model(weights: Path) -> None:
    """xllamacpp brings an HTTP server with it, which by default answers anybody on this machine."""
    first, second = llama_program.load(str(weights), 512), llama_program.load(str(weights), 512)
    assert first.act == second.act == "answers"
    starteds = [json.loads(line)["started"] for line in weights.with_suffix(".diary").read_text().splitlines()]
    for params in starteds:
        assert params["hostnames"] == ["llama.sock"], "no TCP port"
        assert not params["endpoint_slots"]
        assert not params["ui"]
        assert len(params["api_keys"][0]) == 64
    assert starteds[0]["api_keys"] != starteds[1]["api_keys"]
    assert os.getcwd() == "/"


def test_memory_and_threads_are_bounded(weights: Path) -> None:
    llama_program.load(str(weights), 512)
    (line,) = weights.with_suffix(".diary").read_text().splitlines()
    params = json.loads(line)["started"]
    assert (params["n_ctx"], params["n_batch"], params["n_ubatch"], params["cache_ram_mib"]) == (512, 64, 64, 256)


@pytest.mark.parametrize("content", ["damaged", None])
def test_weights_that_cannot_be_read_are_an_exit_code(weights: Path, content: str | None) -> None:
    weights.write_text(content) if content else weights.write_bytes(b"\xff")
    ours, theirs = socket.socketpair()
    assert llama_program.main([str(theirs.detach()), str(weights), "512"]) == llama_program.UNLOADABLE
    ours.close()


def test_it_ends_when_nobody_can_ask_any_more(weights: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    assert llama_program.main([str(theirs.detach()), str(weights), "512"]) == 0
