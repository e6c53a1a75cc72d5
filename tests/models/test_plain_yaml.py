"""YAML that is data and nothing else; every refusal names the line."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.plain_yaml import load_plain
from tests.tables import each_row


def test_plain_yaml_is_read() -> None:
    assert load_plain("- a\n- {b: 1, c: [true, null, 1.5]}\n- |\n  two\n  lines\n") == [
        "a",
        {"b": 1, "c": [True, None, 1.5]},
        "two\nlines\n",
    ]
    assert load_plain("") is None
    assert load_plain("# nothing but words\n") is None
    assert load_plain("- &named a\n") == ["a"]


def test_a_tower_of_aliases_is_refused_at_its_first_alias() -> None:
    tower = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [*{below}, *{below}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(InvalidParamsError, match=r"^line 2: aliases \(\*name\) are not accepted, write it out$"):
        load_plain(tower)


def test_a_tower_of_merged_mappings_is_refused_too() -> None:
    with pytest.raises(InvalidParamsError, match=r"^line 2: aliases"):
        load_plain("a: &a {k: v}\nb: {<<: [*a, *a, *a]}\n")


def test_a_list_that_contains_itself_is_refused() -> None:
    with pytest.raises(InvalidParamsError, match=r"^line 1: aliases"):
        load_plain("&a [*a]")


@each_row(
    "text",
    [
        "- !!python/object/apply:os.system ['true']",
        "- !!python/name:os.system",
        "- !!int ''",
        "- !!bool maybe",
        "- !mine {a: 1}",
        "- !!binary x",
    ],
)
def test_tags_are_refused(text: str) -> None:
    with pytest.raises(InvalidParamsError, match=r"^line 1: tags \(!name\) are not accepted$"):
        load_plain(text)


def test_a_key_written_twice_is_refused() -> None:
    with pytest.raises(InvalidParamsError, match=r"^line 2: 'text' is written twice$"):
        load_plain("- text: one\n  text: two\n")
    assert load_plain("- text: one\n- text: two\n") == [{"text": "one"}, {"text": "two"}]


@each_row(
    ("text", "complaint"),
    [
        ("- a\n- [b", "^line 2: "),
        ("a: b: c", "^line 1: a colon where there can be none; put a text with a colon in quotes$"),
        ("- a\n\t- b", "^line 2: "),
        ("--- a\n--- b", "^line 2: a second document; a file has one$"),
        ("? [a]\n: b", "^line 1: a key that is a list or a mapping; a key is a text$"),
        ("- a\x00b", "^it has a character that cannot stand in YAML$"),
        ("- 2024-13-45", "looks like a date or a number and is not valid as one; put it in quotes$"),
        ("- 0b_", "looks like a date or a number"),
        ("- " + "9" * 5000, "looks like a date or a number"),
        ("- a\n" * 50_000, "^line 50000: there are more than 50,000 values$"),
        ("[" * 10_000, "^it is nested too deeply$"),
        ("- " * 10_000, "^it is nested too deeply$"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(InvalidParamsError, match=complaint) as refusal:
        load_plain(text)
    assert "\n" not in refusal.value.message
