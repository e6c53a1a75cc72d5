"""Options that are on a list."""

from __future__ import annotations

from tertulia.policy.commands.safe_programs import Options, words
from tests.tables import each_row

OPTIONS = Options("ab", "n", "long other-name")


@each_row(
    "arguments",
    [
        "",
        "x",
        "-",
        "--",
        "-a",
        "-ab",
        "-n 5",
        "-n5",
        "-an5",
        "-nxyz",
        "--long",
        "--long=x",
        "--other-name",
        "-a -- x -b",
    ],
)
def test_what_is_listed_is_admitted(arguments: str) -> None:
    assert OPTIONS.admit(arguments.split())


@each_row("arguments", ["-c", "-ac", "--lon", "--longer", "--", "---long", "-5", "-- -c", "-n -c"])
def test_what_is_not_listed_is_refused_wherever_it_stands(arguments: str) -> None:
    """B1: an abbreviation too, and also where it may be a value or a file."""
    assert OPTIONS.admit(arguments.split()) is (arguments == "--")


def test_a_list_is_written_as_a_sentence() -> None:
    assert words("a  b\nc") == {"a", "b", "c"}
