"""Lines that are typed while a task runs, key by key."""

from __future__ import annotations

from tertulia.cli.plain.keyboard import LineEditor
from tertulia.cli.plain.questions import hidden_text
from tests.tables import each_row


@each_row(
    "keys, lines, echo",
    [
        (b"go\n", ["go"], "go\n"),
        (b"gp\x7fo\n", ["go"], "gp\b \bo\n"),
        ("日本\b\n".encode(), ["日"], "日本\b \b\b \b\n"),
        (b"nonsense\x15go\r", ["go"], "nonsense" + "\b \b" * 8 + "go\n"),
        (b"\x1b[A\x1bOBa\x1b[1;5Cb\x1bxc\n", ["abc"], "abc\n"),
        (b"a\tb\x01\x02\n", ["a b"], "a b\n"),
        (b"\x7f\x15\x04", [None], ""),
        (b"half\x04\n1\n", ["half", "1"], "half\n1\n"),
    ],
)
def test_keys_become_lines_and_are_echoed(keys: bytes, lines: list[str | None], echo: str) -> None:
    assert LineEditor().feed(keys) == (lines, echo)
    pieces = LineEditor()
    fed = [pieces.feed(bytes([key])) for key in keys]
    assert ([line for ended, _ in fed for line in ended], "".join(piece for _, piece in fed)) == (lines, echo)


def test_it_is_known_that_a_line_is_half_typed() -> None:
    editor = LineEditor()
    assert not editor.half_typed
    editor.feed(b"a")
    assert editor.half_typed
    editor.feed(b"\x7f")
    assert not editor.half_typed


def test_what_is_hidden_of_a_text_is_read_without_what_was_shown() -> None:
    whole = "".join(f"line {number}\n" for number in range(100))
    assert hidden_text(f"{whole[:50]}⟨… many …⟩{whole[-50:]}", whole) == whole[50:-50]
    assert hidden_text(whole, whole) == ""
