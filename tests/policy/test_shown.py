"""Text that a person decides by."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.shown import MAX_CHARACTERS, Shown, shown


@pytest.mark.parametrize("text", ["", "ls -la", "größe", "日本語", "é", "e\u0301", "a\\b", "👍"])
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert shown(text) == Shown(text, True)


@pytest.mark.parametrize(
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
    assert shown(text).text == expected


def test_lines_stay_lines_where_that_is_wanted() -> None:
    assert shown("a\n\tb\r", lines=True).text == "a\n\tb⟨U+000D⟩"


def test_a_megabyte_is_cut_and_says_how_long_it_is_and_its_hash() -> None:
    """B10."""
    text = "a" * 500_000 + "\u202e" + "b" * 500_000
    got = shown(text)
    assert not got.whole
    assert len(got.text) < MAX_CHARACTERS + 200
    assert got.text.startswith("aaa")
    assert got.text.endswith("bbb")
    assert f"1,000,001 characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}" in got.text


def test_texts_that_differ_only_where_they_are_cut_are_shown_differently() -> None:
    """B10."""
    one, other = ("a" * 5_000 + middle + "b" * 5_000 for middle in "xy")
    assert shown(one).text != shown(other).text


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_can_do_anything_to_a_screen_and_no_two_look_alike(text: str) -> None:
    """B10."""
    got = shown(text).text
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for character in got)
    marks = got.replace("⟨U+", "\0").split("\0")
    back = marks[0] + "".join(chr(int(code, 16)) + rest for code, _, rest in (m.partition("⟩") for m in marks[1:]))
    assert back == text
