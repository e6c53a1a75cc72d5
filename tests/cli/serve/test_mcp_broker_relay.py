"""The relay: light, quick, and nothing but a pipe."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tertulia.cli.serve import mcp_broker as broker_relay
from tertulia.cli.serve.mcp_broker import relay_to_broker
from tertulia.errors import McpError, StorageError
from tertulia.server.mcp.broker_address import private_directory, short_path
from tests.deadlines import HANG_S

HEAVY = {"mcp", "mcp_types", "starlette", "uvicorn", "aiohttp", "pydantic", "anyio", "asyncio", "httpx2", "sqlite3"}


class Listener:
    """Stands where a broker would, and answers what a test says, client after client."""

    def __init__(self, folder: Path, *answers: bytes) -> None:
        private_directory(folder / "broker")
        self.place = folder / "broker" / "x.sock"
        self.heard: list[bytes] = []
        self._listening = socket.socket(socket.AF_UNIX)
        with short_path(self.place) as address:
            self._listening.bind(address)
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve, args=(answers,), daemon=True)
        self._thread.start()

    def _serve(self, answers: tuple[bytes, ...]) -> None:
        for answer in answers:
            connection, _ = self._listening.accept()
            with connection, suppress(OSError):
                self.heard.append(connection.recv(65_536) if answer else b"")
                connection.sendall(answer)

    def close(self) -> None:
        self._thread.join(HANG_S)
        self._listening.close()


def test_the_relay_imports_nothing_heavy() -> None:
    """It is started by every program that uses the broker."""
    code = "import sys, json, tertulia.cli.main, tertulia.cli.serve.mcp_broker; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert not {name.partition(".")[0] for name in json.loads(run.stdout)} & HEAVY


def test_a_refusal_is_told(tmp_path: Path) -> None:
    listener = Listener(tmp_path, b'{"ok":false,"error":"256 programs use this broker already"}\n')
    with pytest.raises(McpError, match="256 programs"):
        relay_to_broker(listener.place, "review", ["/no/such"], b"")
    assert json.loads(listener.heard[0])["view"] == "review"
    listener.close()


@pytest.mark.parametrize("answer", [b"", b"garbage\n", b"null\n", b'{"ok":1}\n'])
def test_one_that_goes_without_a_word_is_asked_again_and_not_for_ever(tmp_path: Path, answer: bytes) -> None:
    """It may just have been about to leave."""
    listener = Listener(tmp_path, *[answer] * 3)
    with pytest.raises(McpError, match="went away"):
        relay_to_broker(listener.place, None, ["/no/such"], b"")
    assert len(listener.heard) == 3
    listener.close()


def test_a_broker_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    private_directory(tmp_path / "broker")
    place = tmp_path / "broker" / "x.sock"
    start = [sys.executable, "-c", "import sys; sys.exit('tertulia: heard ' + sys.stdin.read())"]
    with pytest.raises(McpError, match="did not start: heard all of it; `--alone`"):
        relay_to_broker(place, None, start, b"all of it")
    assert place.with_suffix(".log").read_text() == "tertulia: heard all of it\n"
    with pytest.raises(McpError, match="may say why"):
        relay_to_broker(place, None, [sys.executable, "-c", ""], b"x" * 1_000_000)


def test_a_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    private_directory(tmp_path / "broker")
    place = tmp_path / "broker" / "x.sock"
    place.with_suffix(".log").write_bytes(b"x" * (broker_relay._MAX_LOG + 1))
    with pytest.raises(McpError):
        relay_to_broker(place, None, [sys.executable, "-c", ""], b"")
    assert place.with_suffix(".log").stat().st_size == 0


def test_somebody_elses_socket_is_not_talked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(tmp_path, b"")
    monkeypatch.setattr(broker_relay, "is_same_user", lambda connection: False)
    with pytest.raises(McpError, match="belongs to another user"):
        relay_to_broker(listener.place, None, ["/no/such"], b"")
    listener.close()
    assert listener.heard == [b""]


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broker").symlink_to(tmp_path)
    with pytest.raises(StorageError):
        relay_to_broker(tmp_path / "broker" / "x.sock", None, ["/no/such"], b"")
    assert os.listdir(tmp_path) == ["broker"]
