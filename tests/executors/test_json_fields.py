"""A field is there in the right form, or it is not there."""

from __future__ import annotations

from tertulia.executors.json_output import (
    content_text,
    joined_texts,
    read_argv,
    read_exit_code,
    read_id,
    read_native_id,
    read_table,
    read_tables,
    read_text,
)
from tests.tables import each_row


def test_tables_and_texts() -> None:
    assert read_table({"a": 1}) == {"a": 1}
    assert read_table([1]) == read_table(None) == {}
    assert read_tables([{"a": 1}]) == [{"a": 1}]
    assert read_tables([{"a": 1}, 2]) == read_tables({}) == []
    assert read_text("x") == "x"
    assert read_text(1) is None
    assert joined_texts(["a", 1, "", "b"]) == "a\nb"
    assert joined_texts("ab") == ""
    assert content_text([{"type": "text", "text": "a"}, {"type": "image", "data": "zzz"}]) == "a"


@each_row("value", ["0199-abc", "<UUID>", "thread_1.x", "a" * 200])
def test_an_id_that_can_be_an_argument_is_one(value: str) -> None:
    """S003-32"""
    assert read_native_id(None, value) == value


@each_row("value", ["", "-c", "--last", "a b", "a\n", "a\0", "é", "a" * 201, 7, None, "\u202ex"])
def test_an_id_that_would_be_an_option_or_worse_is_none(value: object) -> None:
    """S003-32: it is put on a command line later."""
    assert read_native_id(value) is None


@each_row(("value", "found"), [("x", "x"), ("", None), (1, None), ("x" * 201, None)])
def test_ids_of_items_are_short(value: object, found: str | None) -> None:
    assert read_id(value) == found


@each_row(("value", "code"), [(0, 0), (-9, -9), (True, None), ("1", None), (1 << 40, None), (None, None)])
def test_exit_codes(value: object, code: int | None) -> None:
    assert read_exit_code(value) == code


@each_row(
    ("command", "words"),
    [
        ("/bin/bash -c 'echo hi'", ("/bin/bash", "-c", "echo hi")),
        ("echo 'open", ("echo 'open",)),
        ("", ("",)),
        (["a", "b c"], ("a", "b c")),
        (["a", 1], None),
        ([], None),
        (7, None),
        ("x " * 20_000, ("x " * 20_000,)),
    ],
)
def test_a_command_is_words(command: object, words: tuple[str, ...] | None) -> None:
    assert read_argv(command) == words
