"""The table of credentials."""

from __future__ import annotations

from pathlib import Path

from tertulia.sandbox.masks import credentials


def test_each_path_stands_once_and_says_what_it_holds() -> None:
    """S9"""
    paths = [row.path for row in credentials.BELOW_HOME]
    assert len(paths) == len(set(paths)) > 150
    assert all(row.holds for row in (*credentials.BELOW_HOME, *credentials.OF_ROOT))


def test_paths_lie_below_the_home_or_are_absolute() -> None:
    for row in credentials.BELOW_HOME:
        assert not row.path.startswith(("/", "~")), row.path
        assert ".." not in row.path.split("/")
    assert all(row.path.startswith("/") for row in (*credentials.OF_ROOT, credentials.OF_CONTAINERS))


def test_no_row_lies_in_another() -> None:
    """One that did could not be unmasked by itself."""
    folders = {row.path for row in credentials.BELOW_HOME if row.path.endswith("/")}
    assert not [
        row.path for row in credentials.BELOW_HOME if any(row.path != f and row.path.startswith(f) for f in folders)
    ]


def test_what_must_not_come_into_being_is_in_the_table() -> None:
    paths = {row.path for row in credentials.BELOW_HOME}
    assert paths >= credentials.ALSO_MISSING


def test_a_name_may_have_a_blank() -> None:
    assert ".config/Bitwarden CLI/" in {row.path for row in credentials.BELOW_HOME}


def test_the_page_lists_the_whole_table() -> None:
    """S9: what is masked can be looked up."""
    page = Path(__file__).parents[3].joinpath("docs", "sandbox.md").read_text()
    listed = " ".join(page.split())
    rows = (*credentials.BELOW_HOME, *credentials.OF_ROOT, credentials.OF_CONTAINERS)
    assert not [row.path for row in rows if f"{row.path}" not in listed]
