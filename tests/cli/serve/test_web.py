"""`tertulia serve` as a person starts it. What it serves is tested with the server."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import DEADLINE_S, Shell


@contextmanager
def serving(shell: Shell, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """It, and the line that it prints."""
    with shell.start("serve", "--port", "0", "-m", shell.script("fine"), *arguments) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def health(address: dict[str, str]) -> Any:
    token = Path(address["token_file"]).read_text()
    request = urllib.request.Request(f"{address['url']}/health", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_cleanly_with_a_signal(shell: Shell, number: signal.Signals) -> None:
    """X-46, D5: one line of JSON, a token that only its owner can read, and that nobody sees in the process list."""
    with serving(shell) as (process, address):
        assert set(address) == {"url", "token_file"}
        assert address["url"].startswith("http://127.0.0.1:")
        file = Path(address["token_file"])
        assert file.name == "serve.token"
        assert file.stat().st_mode & 0o777 == 0o600
        assert health(address)["status"] == "ok"
        token = file.read_text().encode()
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert token not in Path(f"/proc/{process.pid}/environ").read_bytes()
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, out, err) == (0, b"", b"")


def test_another_start_has_the_same_token(shell: Shell) -> None:
    with serving(shell) as (_, first), serving(shell) as (_, second):
        assert first["token_file"] == second["token_file"]
        assert health(first)["status"] == health(second)["status"] == "ok"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_an_address_that_others_can_reach_needs_a_word(shell: Shell, address: str) -> None:
    """D8."""
    ran = shell.run("serve", "--port", "0", "--host", address)
    assert (ran.code, ran.out) == (2, "")
    assert "--allow-remote" in ran.err


def test_with_the_word_it_listens_there(shell: Shell) -> None:
    """D8."""
    with serving(shell, "--host", "0.0.0.0", "--allow-remote") as (_, address):
        port = address["url"].rpartition(":")[2]
        assert health({**address, "url": f"http://127.0.0.1:{port}"})["status"] == "ok"


@pytest.mark.parametrize(
    "wrong", [["--port", "99999"], ["--port", "x"], ["-m", "nobody/x"], ["-s", "loose"], ["--allow-origin", "*"]]
)
def test_a_mistake_is_told_before_anything_is_served(shell: Shell, wrong: list[str]) -> None:
    ran = shell.run("serve", *wrong)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


def test_pages_of_named_origins_are_let_in(shell: Shell) -> None:
    """Issue 19, item 13."""
    with serving(shell, "--allow-origin", "http://localhost:5173", "--allow-origin", "https://app.example") as (
        _,
        address,
    ):
        request = urllib.request.Request(f"{address['url']}/health", headers={"Origin": "https://app.example"})
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
            assert json.loads(answer.read()) == {"status": "ok"}


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with serving(shell) as (_, address):
        ran = shell.run("serve", "--port", address["url"].rpartition(":")[2], "-m", shell.script("fine"))
        assert (ran.code, ran.out) == (2, "")
        assert "in use" in ran.err


def test_without_the_web_server_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.cli.serve.web.find_spec", lambda name: None)
    ran = shell.run("serve", "--port", "0")
    assert ran.code == 2
    assert "tertulia[web]" in ran.err
