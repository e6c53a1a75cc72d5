"""Markdown as rows: what it looks like, and that a text in pieces ends as the text in one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from tertulia.policy.display_text import printable
from tertulia.terminal.drawing.growing import UNFINISHED, GrowingMarkdown
from tertulia.terminal.drawing.markdown import markdown_rows
from tertulia.terminal.drawing.palette import ASCII, Palette
from tests.terminal.transcript.boards import ANSWER
from tests.thorough import examples

PALETTE = Palette(Style.null())

BLOCKS = [
    "A paragraph with **bold**, *italic*, `code` and [a link](https://a.b).",
    "# Heading",
    "Title\n===",
    "- one\n- two\n  - three\n\n  more of two\n- four",
    "3. three\n4. four",
    "* other list",
    "> quote\n> goes on\nlazily",
    "```python\ndef f():\n    '''a\n    b'''\n\n    return 1\n```",
    "~~~\nplain ``` code\n~~~",
    "   ```\n   indented\n  less\n```",
    "    indented code",
    "| a | b |\n|---|--:|\n| 1 | 2 |",
    "---",
    "***",
    "日本語の文章です。👩‍👩‍👧 👍🏽",
    "<div>html</div>",
    "[a]: https://defined.example",
    "line\nbreak  \nhard",
    "&amp; \\* ~~gone~~ ![alt](x.png)",
    "-",
    "*",
    "1.",
    "``",
    "```",
    "|",
    "tab\there\r\nthere",
    "\u202eright to left",
]


def texts(rows: list) -> list[str]:
    return [row.text.rstrip() for row in rows]


@given(
    st.lists(st.tuples(st.sampled_from(BLOCKS), st.sampled_from(["\n", "\n\n", "\n\n\n", " ", ""])), max_size=7),
    st.randoms(),
)
@settings(max_examples=examples(800), deadline=None)
def test_a_text_in_pieces_shows_at_every_piece_what_it_would_show_whole(
    blocks: list[tuple[str, str]], dice: random.Random
) -> None:
    """So no line is shown twice, and none is missing."""
    text = "".join(block + end for block, end in blocks)
    growing = GrowingMarkdown(40, PALETTE)
    end = 0
    while end < len(text):
        end = min(len(text), end + dice.randint(1, 12))
        piece = text[:end].rstrip(UNFINISHED)
        assert texts(growing.draw(text[:end])) == texts(markdown_rows(printable(piece), 40, PALETTE))


@given(st.text(st.sampled_from("ab \n`~-*_#>|[]()1.!\\\t日"), max_size=120), st.randoms())
@settings(max_examples=examples(800), deadline=None)
def test_any_text_in_pieces_shows_what_it_would_show_whole(text: str, dice: random.Random) -> None:
    growing = GrowingMarkdown(20, PALETTE)
    end = 0
    while end < len(text):
        end = min(len(text), end + dice.randint(1, 30))
        assert texts(growing.draw(text[:end])) == texts(markdown_rows(text[:end], 20, PALETTE))


@given(st.lists(st.sampled_from(BLOCKS), max_size=5), st.integers(8, 60))
@settings(max_examples=examples(800), deadline=None)
def test_no_row_is_wider_than_the_screen(blocks: list[str], width: int) -> None:
    for row in markdown_rows(printable("\n\n".join(blocks)), width, PALETTE):
        assert cell_len(row.text.rstrip()) <= width, row.text


def test_an_answer_with_everything() -> None:
    assert (
        "\n".join(texts(markdown_rows(ANSWER, 60, PALETTE)))
        == """\
I had the tests run by tester and the change read by
reviewer. Both agree on the cause.

What was wrong

total() added each item's price once, whatever its count.

│ def total(items):
│     \"\"\"The price of everything in the basket, in cents.\"\"\"
│     return sum(item.price * item.count for item in items)

1. Rewrote total as one sum over price times count.
2. Added a test that fails without the change.

file                │ change
────────────────────┼─────────────────
app.py              │ 5 lines became 2
tests/test_total.py │ new, 5 lines

Shall I commit it? See the issue (https://example.org/7)."""
    )


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("- a\n- b\n  - c", ["• a", "• b", "  • c"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("9. a\n10. b", [" 9. a", "10. b"]),
        ("> a\n> > b", ["│ a", "│", "│ │ b"]),
        ("a\nb", ["a", "b"]),
        ("<b>x</b>", ["<b>x</b>"]),
        ("<https://a.b>", ["https://a.b"]),
        ("![a cat](cat.png)", ["[picture: a cat] (cat.png)"]),
        ("[a]: https://a.b", ["[a]: https://a.b"]),
        ("```\n```", ["│"]),
    ],
)
def test_how_a_block_is_drawn(text: str, rows: list[str]) -> None:
    assert texts(markdown_rows(text, 40, PALETTE)) == rows


def test_a_table_without_room_becomes_a_list() -> None:
    table = (
        "| name | " + " | ".join(f"c{n}" for n in range(9)) + " |\n" + "|---" * 10 + "|\n" + "| a long name " * 10 + "|"
    )
    rows = texts(markdown_rows(table, 40, PALETTE))
    assert rows[:2] == ["name: a long name", "c0: a long name"]


def test_what_is_nested_deeper_than_the_parser_follows_is_shown_as_it_is() -> None:
    assert "found" in "".join(texts(markdown_rows("> " * 60 + "found", 40, PALETTE)))
    assert "found" in "".join(texts(markdown_rows("- " * 60 + "found", 40, PALETTE)))


def test_marks_of_ascii_draw_no_boxes() -> None:
    drawn = "\n".join(texts(markdown_rows(ANSWER + "\n\n- a\n\n> b", 60, Palette(Style.null(), ASCII))))
    assert drawn.isascii()


def test_code_has_the_colours_of_its_language_and_is_copied_whole() -> None:
    rows = markdown_rows("```python\ndef f():\n    return 1\n```", 40, PALETTE)
    assert ("def", PALETTE["keyword"]) in rows[0].runs
    assert {row.code for row in rows} == {"def f():\n    return 1"}


def test_drawing_a_long_answer_in_pieces_parses_each_part_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from tertulia.terminal.drawing import growing as module

    parsed = 0
    parse = module.parse_blocks

    def counted(text: str) -> list:
        nonlocal parsed
        parsed += len(text)
        return parse(text)

    monkeypatch.setattr(module, "parse_blocks", counted)
    text = f"{ANSWER}\n\n" * 20
    growing = GrowingMarkdown(80, PALETTE)
    for end in range(16, len(text), 16):
        growing.draw(text[:end])
    assert parsed < 12 * len(text), "it is not parsed from its beginning at every piece"


def test_a_line_of_a_megabyte_that_grows_is_drawn_by_its_ends() -> None:
    growing = GrowingMarkdown(80, PALETTE)
    assert len(growing.draw("x" * 1_000_000)) < 500
    assert "x\n" not in growing.draw("x" * 1_000_000 + "\n\nnext")[-1].text
    assert growing.draw("x" * 1_000_000 + "\n\nnext")[-1].text == "next"
