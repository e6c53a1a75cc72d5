"""The program between an agent and our socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

from tertulia.session.agents import relay
from tests.deadlines import HANG_S

_IMPATIENT = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("relay", sys.argv[1])
relay = module_from_spec(spec)
spec.loader.exec_module(relay)
relay._PATIENCE_S = 0.5
relay.relay(sys.argv[2])
"""


def started(path: Path, *program: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", *program, relay.__file__, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_bytes_go_both_ways_and_an_end_is_passed_on(tmp_path: Path) -> None:
    """Issue 11, point 4: the agent's MCP server is ours, through a program that decides nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        listening.settimeout(HANG_S)
        with started(tmp_path / "socket") as relay:
            assert relay.stdin is not None
            assert relay.stdout is not None
            line, _ = listening.accept()
            with line, line.makefile("rb") as heard:
                line.sendall(b"x" * 200_000 + b"\n")
                assert len(relay.stdout.readline()) == 200_001
                relay.stdin.write(b"hello\n")
                relay.stdin.close()
                assert heard.read() == b"hello\n"
            assert relay.stdout.read() == b""
            assert relay.wait(HANG_S) == 0


def test_it_leaves_when_our_side_does_although_the_agent_says_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        listening.settimeout(HANG_S)
        with started(tmp_path / "socket") as relay:
            line, _ = listening.accept()
            line.close()
            assert relay.wait(HANG_S) == 0
            relay.communicate()


def test_it_leaves_when_the_agent_has_left_although_its_output_stays_open(tmp_path: Path) -> None:
    """L2: neither end reads, so that each thread waits for a reader, and the end of the input is behind what waits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        listening.settimeout(HANG_S)
        with started(tmp_path / "socket", "-c", _IMPATIENT) as relay:
            assert relay.stdin is not None
            line, _ = listening.accept()
            with line:
                for sink in (line.fileno(), relay.stdin.fileno()):
                    fill(sink)
                relay.stdin.close()
                assert relay.wait(HANG_S) == 0


def fill(sink: int) -> None:
    """Write until nothing more is taken for a while."""
    os.set_blocking(sink, False)
    silent_since = time.monotonic()
    while time.monotonic() - silent_since < 0.5:
        try:
            os.write(sink, b"x" * 1_000)
            silent_since = time.monotonic()
        except BlockingIOError:
            Event().wait(0.01)
