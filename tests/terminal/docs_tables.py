"""The tables of docs/terminal.md that are made from code.

`python -m tests.terminal.docs_tables` writes them into the page; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from textual.binding import Binding

from tertulia.terminal.commands.command_list import help_table
from tertulia.terminal.looks.keys import bindings, bindings_of, show_keys
from tertulia.terminal.panels.tree import ConversationTree
from tertulia.terminal.transcript.transcript import Transcript

PAGE = Path(__file__).parent.parent.parent / "docs" / "terminal.md"


def key_table(rows: Iterable[Binding]) -> str:
    """Keys and what they do, as a table of Markdown."""
    lines = [f"| {_code(binding.key)} | {binding.description} |" for binding in rows]
    return "\n".join(["| key | what it does |", "|---|---|", *lines])


def _code(keys: str) -> str:
    return " ".join(f"`{key}`" for key in show_keys(keys).split(" "))


def written(page: str) -> str:
    """The page with its tables as the code has them now."""
    tables = {
        "keys": key_table(bindings()),
        "tree keys": key_table(binding for _, binding in bindings_of([ConversationTree])),
        "transcript keys": key_table(binding for _, binding in bindings_of([Transcript])),
        "commands": help_table(),
    }
    for name, table in tables.items():
        page = re.sub(rf"(?<=<!-- {name} -->\n\n)(?:\|.*\n)*", f"{table}\n".replace("\\", r"\\"), page)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
