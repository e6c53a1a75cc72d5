"""The program between an agent and our socket."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tertulia.session.agents import relay
from tests.deadlines import HANG_S


def started(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", relay.__file__, str(path)]
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
