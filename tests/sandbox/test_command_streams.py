"""The streams of a command."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from msgspec.structs import replace

from tertulia.sandbox.command_streams import CommandStreams
from tertulia.sandbox.runner import TerminalSize
from tests.sandbox.confined import Place


def test_pipes_are_separate_and_ours_never_block(place: Place) -> None:
    stdio = CommandStreams(place.command("true", keep_stdin=True))
    assert stdio.reader is not None
    assert stdio.writer is not None
    assert stdio.streams.stdout == stdio.streams.stderr
    assert not os.get_blocking(stdio.reader)
    assert os.get_blocking(stdio.streams.stdout)
    os.write(stdio.streams.stdout, b"x")
    assert os.read(stdio.reader, 10) == b"x"
    stdio.close_theirs()
    assert os.read(stdio.reader, 10) == b""
    stdio.close_ours()
    assert stdio.reader is None


def test_a_command_without_input_reads_the_end_of_file(place: Place) -> None:
    stdio = CommandStreams(place.command("true"))
    assert stdio.writer is None
    assert os.read(stdio.streams.stdin, 1) == b""
    stdio.close_theirs()
    stdio.close_ours()


def test_a_terminal_has_its_size(place: Place) -> None:
    stdio = CommandStreams(place.command("true", terminal=TerminalSize(30, 120)))
    assert os.isatty(stdio.streams.stdin)
    assert struct.unpack("HHHH", fcntl.ioctl(stdio.streams.stdin, termios.TIOCGWINSZ, bytes(8)))[:2] == (30, 120)
    assert stdio.reader == stdio.writer
    stdio.close_theirs()
    stdio.close_ours()


def test_our_own_streams_are_passed_on_and_not_closed(place: Place) -> None:
    stdio = CommandStreams(replace(place.command("true"), inherit_stdio=True))
    assert (stdio.streams.stdin, stdio.streams.stdout, stdio.streams.stderr) == (0, 1, 2)
    assert stdio.reader is None
    stdio.close_theirs()
    stdio.close_ours()
    os.fstat(1)


def test_errors_apart_have_a_pipe_of_their_own(place: Place) -> None:
    stdio = CommandStreams(place.command("true"), errors_apart=True)
    assert stdio.errors is not None
    assert stdio.reader is not None
    assert not os.get_blocking(stdio.errors)
    os.write(stdio.streams.stderr, b"e")
    os.write(stdio.streams.stdout, b"o")
    assert (os.read(stdio.errors, 10), os.read(stdio.reader, 10)) == (b"e", b"o")
    stdio.close_theirs()
    assert os.read(stdio.errors, 10) == b""
    stdio.close_ours()
    assert stdio.errors is None
