"""Colours where they are shown, and no text that steers a terminal. HARDENING A22."""

from __future__ import annotations

import io
import json

import pytest

from tertulia.cli.output.terminal import TerminalOutput, escape_invisible, json_line, shorten
from tests.tables import each_row


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, variables: dict[str, str] | None = None) -> str:
    TerminalOutput(stream, variables or {}).line("plain ", ("red", "red"), (" plain", "plain"), ("", "red"))
    return stream.getvalue()


def test_a_terminal_gets_colours() -> None:
    assert shown(Screen()) == "plain \x1b[31mred\x1b[0m plain\n"


def test_a_pipe_gets_none() -> None:
    assert shown(io.StringIO()) == "plain red plain\n"


def test_no_color_is_heeded_unless_it_is_empty() -> None:
    assert "\x1b" not in shown(Screen(), {"NO_COLOR": "1"})
    assert "\x1b" in shown(Screen(), {"NO_COLOR": ""})


def test_a_dumb_terminal_gets_none() -> None:
    assert "\x1b" not in shown(Screen(), {"TERM": "dumb"})


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    screen = Screen()
    TerminalOutput(screen, {"NO_COLOR": "1"}).write("a\x1b]0;title\x07b\rc\x9bd\x7f\x00 \tkept\r\nkept\n")
    assert screen.getvalue() == ("a⟨U+001B⟩]0;title⟨U+0007⟩b⟨U+000D⟩c⟨U+009B⟩d⟨U+007F⟩⟨U+0000⟩ \tkept\nkept\n")


def test_a_pipe_gets_what_a_terminal_gets() -> None:
    """A6: a pipe ends on a screen, in a pager or in a log."""
    pipe = io.StringIO(newline="")
    TerminalOutput(pipe, {}).write("a\x1b[31mb\u202e\r\n")
    assert pipe.getvalue() == "a⟨U+001B⟩[31mb⟨U+202E⟩\n"


def test_an_answer_that_comes_in_pieces_is_printed_whole() -> None:
    """A6."""
    screen = Screen()
    terminal = TerminalOutput(screen, {"NO_COLOR": "1"})
    for piece in ("go \U0001f469", "\u200d", "\U0001f467", "!\x1b", "[2J", "\u2764"):
        terminal.stream(piece)
    assert screen.getvalue() == "go \U0001f469\u200d\U0001f467!⟨U+001B⟩[2J"
    terminal.end_stream()
    assert screen.getvalue().endswith("\u2764")


def test_a_character_that_the_encoding_lacks_is_spelled_out() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    TerminalOutput(stream, {}).write("café")
    assert raw.getvalue() == b"caf\\xe9"


@each_row(
    ("text", "line"),
    [
        ("short", "short"),
        ("two\n  lines", "two lines"),
        ("0123456789", "0123456789"),
        ("01234567890", "012345678…"),
        ("x" + " " * 100 + "y", "x…"),
    ],
)
def test_a_preview_is_one_line_of_bounded_length(text: str, line: str) -> None:
    assert shorten(text, 10) == line


def test_a_line_can_be_printed_over_where_somebody_is_watching() -> None:
    screen = Screen()
    terminal = TerminalOutput(screen, {"NO_COLOR": "1"})
    terminal.rewrite("10 %")
    terminal.rewrite("20 %\r")
    terminal.rewrite()
    assert screen.getvalue() == "\r\x1b[K10 %\r\x1b[K20 %⟨U+000D⟩\r\x1b[K"


@pytest.mark.parametrize(("stream", "variables"), [(io.StringIO(), {}), (Screen(), {"TERM": "dumb"})])
def test_elsewhere_nothing_is_printed_over(stream: io.StringIO, variables: dict[str, str]) -> None:
    TerminalOutput(stream, variables).rewrite("10 %")
    assert stream.getvalue() == ""


def test_whatever_a_text_holds_it_is_one_line_for_every_reader() -> None:
    """HARDENING E11: `splitlines` makes three of a record with U+2028 and U+0085."""
    text = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029é日\U0001f600"
    line = json_line({"text": text})
    assert line.endswith(b"}\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {"text": text}


def test_json_holds_the_exact_value_and_steers_no_terminal() -> None:
    """A6: what JSON itself leaves as it is, is escaped, also beyond the first plane."""
    text = "\x7f\x9b\u202e\u2066\u200d\ufeff\U000e0041 \u05e9\u65e5\U0001f600"
    line = json_line(text)
    assert json.loads(line) == text
    assert line.decode() == '"\\u007f\\u009b\\u202e\\u2066\\u200d\\ufeff\\udb40\\udc41 \u05e9\u65e5\U0001f600"\n'
    assert escape_invisible(b'{"plain": 1}') == b'{"plain": 1}'
