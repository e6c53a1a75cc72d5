"""Lines of panels: cut to a width, and safe to print."""

from __future__ import annotations

from tertulia.terminal.panels.lines import clean, fit, line


def test_a_line_fills_its_width_whatever_characters_it_has() -> None:
    for text in ("short", "longer than there is room for", "日本語のとても長い名前", ""):
        for width in (1, 2, 7, 12):
            assert line([(text, "bold")], width).cell_length == width


def test_what_stands_at_the_right_is_whole_where_it_fits() -> None:
    assert line([("a long name", "")], 8, right=[("12", "bold")]).text == "a lon…12"
    assert line([("name", "")], 3, right=[("1234", "")]).text == "na…"


def test_a_wide_character_is_not_cut_in_half() -> None:
    assert fit("日本語", 4) == "日…"


def test_text_of_others_is_one_line_and_obeys_nothing() -> None:
    assert clean("a\n b\x1b[31m") == "a b⟨U+001B⟩[31m"
