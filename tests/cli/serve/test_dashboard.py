"""How the dashboard is opened: the address on a terminal, and a browser that is never given the token."""

from __future__ import annotations

import os
import signal
import stat
import time
from pathlib import Path

import pytest

from tertulia.cli.serve.open_page import announced, find_server, redirect_file
from tests.cli.running import Shell
from tests.cli.stored_sessions import Screen, home
from tests.deadlines import HANG_S

BROWSER = """#!/bin/sh
file="${1#file://}"
{ tr '\\0' ' ' < /proc/$$/cmdline; echo; stat -c %a "$file"; cat "$file"; } > "$0.tmp"
mv "$0.tmp" "$0.seen"
"""


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + HANG_S
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["serve --open", "dashboard"])
def test_a_browser_is_started_with_a_private_file_and_never_with_the_token(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """D5: not in the arguments of the browser; the file is private, and gone in the end. Issue 23, 3.

    `dashboard` starts a server of its own where none runs, and with another one it finds that.
    """
    browser = shell.folder / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    screen = Screen(shell, *verb.split(), "--port", "0", "-m", shell.script("hello"))
    try:
        screen.until("Dashboard: http://127.0.0.1:")
        screen.until("Ctrl-C stops")
        token = (home(shell) / "serve.token").read_text()
        assert f"/#token={token}" in screen.seen
        line, mode, text = wait_for(Path(f"{browser}.seen")).split("\n", 2)
        assert token not in line
        assert "open-" in line
        assert (mode, f"/#token={token}" in text) == ("600", True)
        url = find_server(home(shell))
        assert url is not None
        assert f"Dashboard: {url}/#token" in screen.seen
        if verb == "dashboard":
            second = shell.run("dashboard")
            assert (second.code, f"The dashboard of {url} opens" in second.out) == (0, True)
    finally:
        screen.process.send_signal(signal.SIGINT)
        assert screen.close() == 0
    assert not list(home(shell).glob("open-*"))
    assert find_server(home(shell)) is None


def test_a_server_that_has_ended_is_not_found_and_its_file_is_removed(tmp_path: Path) -> None:
    """Only a living process holds the lock: neither a leftover nor another port's owner is taken for a server."""
    assert find_server(tmp_path) is None
    with announced(tmp_path, "http://127.0.0.1:1"):
        assert find_server(tmp_path) == "http://127.0.0.1:1"
    left = tmp_path / "servers" / "77.url"
    left.write_text("http://127.0.0.1:2")
    left.chmod(0o600)
    foreign = tmp_path / "servers" / "88.url"
    foreign.write_text("http://127.0.0.1:3")
    foreign.chmod(0o666)
    assert find_server(tmp_path) is None
    assert (left.exists(), foreign.exists()) == (False, True)


def test_the_file_that_leads_to_the_page_is_private_and_removed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with redirect_file(tmp_path, "http://127.0.0.1:1/#token=a&b<c") as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert "token=a&amp;b&lt;c" in path.read_text()
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == []
