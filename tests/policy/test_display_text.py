"""Text that a person decides by."""

from __future__ import annotations

import hashlib
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.display_text import (
    MAX_CHARACTERS,
    DisplayText,
    PrintableStream,
    make_display_text,
    printable,
    value_text,
    visible,
)
from tests.tables import each_row


@each_row("text", ["", "ls -la", "größe", "日本語", "é", "e\u0301", "a\\b", "👍"])
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert make_display_text(text) == DisplayText(text, True)


@each_row(
    ("text", "expected"),
    [
        ("rm \u202exfc", "rm ⟨U+202E⟩xfc"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("l\u200bs", "l⟨U+200B⟩s"),
        ("\ufeffls", "⟨U+FEFF⟩ls"),
        ("\x1b[2Jls", "⟨U+001B⟩[2Jls"),
        ("\x9b2J", "⟨U+009B⟩2J"),
        ("a\r\nb\tc\0", "a⟨U+000D⟩⟨U+000A⟩b⟨U+0009⟩c⟨U+0000⟩"),
        ("a\u00a0b\u2028c", "a⟨U+00A0⟩b⟨U+2028⟩c"),
        ("a\u3164b\u2800", "a⟨U+3164⟩b⟨U+2800⟩"),
        ("a\ufe0f\U000e0041", "a⟨U+FE0F⟩⟨U+E0041⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟩"),
        ("a" + "\u0301" * 5, "a\u0301\u0301\u0301⟨U+0301⟩⟨U+0301⟩"),
    ],
)
def test_what_hides_moves_or_pretends_is_written_out(text: str, expected: str) -> None:
    """B10: bidi, zero-width, ANSI."""
    assert make_display_text(text).text == expected


WRITING = [
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f3c3\U0001f3fd\u200d\u2642\ufe0f",
    "\u2764\ufe0f and 1\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0627\u0644\u0633\u0644\u0627\u0645",
    "\u06dd",
]
"""Families of emoji, flags, Persian, Hindi, Hebrew, Arabic."""


@each_row("text", WRITING)
def test_what_writing_needs_stays(text: str) -> None:
    """A6: joiners and variants within emoji and words are no tricks."""
    assert visible(text) == printable(text) == text


@each_row(
    ("text", "expected"),
    [
        ("a\u200db", "a⟨U+200D⟩b"),
        ("\u0627\u200c\u0628", "\u0627⟨U+200C⟩\u0628"),
        ("\U0001f469\u200d", "\U0001f469⟨U+200D⟩"),
        ("\U0001f3f4\U000e0072\U000e006d\U000e007f", "\U0001f3f4⟨U+E0072⟩⟨U+E006D⟩⟨U+E007F⟩"),
        ("\u200e\u200f\u061c\u202a\u2069", "⟨U+200E⟩⟨U+200F⟩⟨U+061C⟩⟨U+202A⟩⟨U+2069⟩"),
        ("x\u2028y\u2029", "x⟨U+2028⟩y⟨U+2029⟩"),
        ("\x1b]0;t\x07\x9b\x7f\0", "⟨U+001B⟩]0;t⟨U+0007⟩⟨U+009B⟩⟨U+007F⟩⟨U+0000⟩"),
        ("a\ufe0f\U000e0100", "a⟨U+FE0F⟩⟨U+E0100⟩"),
        ("\ufffe\ufff0\u3164", "⟨U+FFFE⟩⟨U+FFF0⟩⟨U+3164⟩"),
    ],
)
def test_both_degrees_show_what_hides_or_steers(text: str, expected: str) -> None:
    """A6: bidi, zero-width, tags, variants and escapes, wherever text of others is read."""
    assert printable(text) == expected
    assert visible(text) == expected


def test_what_is_read_keeps_its_blanks_signs_and_lines() -> None:
    """A6: a screen that only shows needs no mark for a blank; one that decides does."""
    text = "\u00a0\u3000\u2800\ue0b0\u27e8x\u27e9\n\ty\r\nz"
    assert printable(text) == text.replace("\r\n", "\n")
    assert visible("\u3000\ue0b0") == "⟨U+3000⟩⟨U+E0B0⟩"
    assert visible("a\n\tb", lines=True) == "a\n\tb"
    assert printable("a" + "\u0301" * 9) == "a" + "\u0301" * 8 + "⟨U+0301⟩"


@each_row("text", [*WRITING[:3], *WRITING[4:], "plain", "a\r\nb", "x\u200by", "\x1b[2J"])
def test_a_text_that_comes_in_pieces_is_printed_as_if_it_came_whole(text: str) -> None:
    """A6: a model's answer comes in pieces that are cut anywhere."""
    stream = PrintableStream()
    assert "".join(map(stream.feed, text)) + stream.end() == printable(text)


def test_a_piece_of_plain_text_is_printed_at_once() -> None:
    stream = PrintableStream()
    assert stream.feed("plain") == "plain"
    assert stream.feed(" \U0001f469") == " "
    assert stream.feed("\n") == "\U0001f469\n"
    assert stream.feed("\r") == ""
    assert stream.end() == "⟨U+000D⟩"


@each_row(
    ("text", "expected"),
    [
        ("g\u0456t push", "g⟨U+0456⟩t push"),
        ("cat /home/\u0430na/x", "cat /home/⟨U+0430⟩na/x"),
        ("curl https://g\u0131thub.com\u2215x", "curl https://g\u0131thub.com⟨U+2215⟩x"),
        ("ls\u037e rm \u2010rf", "ls⟨U+037E⟩ rm ⟨U+2010⟩rf"),
        ("\U0001d42b\U0001d426 x", "⟨U+1D42B⟩⟨U+1D426⟩ x"),
        ("\uff52m", "⟨U+FF52⟩m"),
        ("p\u200d\u0430y", "p⟨U+200D⟩⟨U+0430⟩y"),
        ("git commit -m 'исправил сор в \u043a\u043e\u0434\u0435'", "git commit -m 'исправил сор в коде'"),
        ("10 kΩ, λx, naïve, /home/иван/Οδός, ＡＢＣ", "10 kΩ, λx, naïve, /home/иван/Οδός, ＡＢＣ"),
    ],
)
def test_a_letter_that_pretends_to_be_another_is_written_out(text: str, expected: str) -> None:
    """B10: a person who reads `git push` has not allowed the program of another name."""
    assert visible(text) == expected


def test_lines_stay_lines_where_that_is_wanted() -> None:
    assert make_display_text("a\n\tb\r", lines=True).text == "a\n\tb⟨U+000D⟩"


def test_a_megabyte_is_cut_and_says_how_long_it_is_and_its_hash() -> None:
    """B10."""
    text = "a" * 500_000 + "\u202e" + "b" * 500_000
    got = make_display_text(text)
    assert not got.whole
    assert len(got.text) < MAX_CHARACTERS + 200
    assert got.text.startswith("aaa")
    assert got.text.endswith("bbb")
    assert f"1,000,001 characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}" in got.text


def test_texts_that_differ_only_where_they_are_cut_are_shown_differently() -> None:
    """B10."""
    one, other = ("a" * 5_000 + middle + "b" * 5_000 for middle in "xy")
    assert make_display_text(one).text != make_display_text(other).text


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_can_do_anything_to_a_screen_and_no_two_look_alike(text: str) -> None:
    """B10."""
    got = make_display_text(text).text
    unseen = [
        character for character in got if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    ]
    # Joiners and marks of numbers, where they belong.
    assert all(
        character in "\u200c\u200d" or "SIGN" in unicodedata.name(character) or "MARK" in unicodedata.name(character)
        for character in unseen
    )
    marks = got.replace("⟨U+", "\0").split("\0")
    back = marks[0] + "".join(chr(int(code, 16)) + rest for code, _, rest in (m.partition("⟩") for m in marks[1:]))
    assert back == text


@each_row(
    ("value", "words"),
    [
        (None, "none"),
        (True, "true"),
        (False, "false"),
        ("read-only", "read-only"),
        (7, "7"),
        ("a\u202e", "a⟨U+202E⟩"),
        ([], "nothing"),
        (["/w", "/x"], "/w, /x"),
        ({}, "nothing"),
        ({"auto_run": "trusted", "may_ask": False}, "auto_run trusted, may_ask false"),
    ],
)
def test_a_setting_is_told_in_words_and_never_as_python(value: object, words: str) -> None:
    """A1: people were shown a Python dict."""
    assert value_text(value) == words
