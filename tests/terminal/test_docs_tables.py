"""The tables of docs/terminal.md are those of the code."""

from __future__ import annotations

from tests.terminal.docs_tables import PAGE, written


def test_the_page_has_every_key_and_command() -> None:
    page = PAGE.read_text()
    assert written(page) == page, "run `python -m tests.terminal.docs_tables`"
