"""The tables of the docs that are made from the table of conversation fields.

`python -m tests.docs.field_tables` writes them into the pages; a test compares.
"""

from __future__ import annotations

import json

from tertulia.protocol.conversation_fields import (
    CONVERSATION_FIELDS,
    TOOL_SWITCHES,
    ConversationField,
    Structured,
    Words,
)
from tests.docs.pages import ROOT

RIGHTS = "| right | narrower ← → wider |"
FIELDS = "| field | what it is |"
SETTINGS = "| setting | default | what it is |"
PARENT = "| `parent_id` | `open` only: the conversation that it belongs to, root unless you say otherwise |"
SWITCHES = "| `internal_tools` | switches: "


def narrowing(row: ConversationField) -> str:
    """What is narrower than what, for people."""
    kind = row.kind
    if isinstance(kind, Structured):
        return kind.narrowing
    if not isinstance(kind, Words):
        return "false < true"
    if kind.off is not None:
        return f"asked for with `{row.name}`: `{kind.off}` < every other mode"
    return " < ".join(f"`{word}`" for word in kind.spelled())


def right_rows() -> list[str]:
    """Of docs/rights.md."""
    return [f"| `{row.right}` | {narrowing(row)} |" for row in CONVERSATION_FIELDS if row.narrows]


def field_rows() -> list[str]:
    """Of docs/session.md, and what only `open` takes."""
    return [*(f"| `{row.name}` | {row.doc} |" for row in CONVERSATION_FIELDS if row.doc is not None), PARENT]


def setting_rows() -> dict[str, str]:
    """Of docs/configuration.md, by name; the other settings are written there by hand."""
    rows: dict[str, str] = {}
    for row in CONVERSATION_FIELDS:
        default = (
            "unset" if row.default is None else "see below" if row.default == {} else f"`{json.dumps(row.default)}`"
        )
        if row.setting is not None:
            rows[row.name] = f"| `{row.name}` | {default} | {row.setting} |"
    return rows


def switch_row() -> str:
    """Of docs/delegation.md: what `conv_create` can switch."""
    names = [*(switch.short_name for switch in TOOL_SWITCHES.values()), "use_streamable_shell_tool"]
    return SWITCHES + ", ".join(f"`{name}`" for name in names) + " |"


def renewed(page: str, text: str) -> str:
    """The text of a page with the tables of now."""
    match page:
        case "rights.md":
            return _replace_rows(text, RIGHTS, lambda _: right_rows())
        case "session.md":
            return _replace_rows(text, FIELDS, lambda _: field_rows())
        case "configuration.md":
            return _replace_rows(text, SETTINGS, _settings)
        case _:
            return "".join(
                switch_row() + "\n" if line.startswith(SWITCHES) else line for line in text.splitlines(keepends=True)
            )


PAGES = ("rights.md", "session.md", "configuration.md", "delegation.md")


def _settings(written: list[str]) -> list[str]:
    made = setting_rows()
    lines = [made.pop(line.split("`")[1], line) for line in written]
    return [*lines, *made.values()]


def _replace_rows(text: str, header: str, rows) -> str:
    lines = text.split("\n")
    first = lines.index(header) + 2
    last = next(at for at in range(first, len(lines)) if not lines[at].startswith("|"))
    return "\n".join([*lines[:first], *rows(lines[first:last]), *lines[last:]])


if __name__ == "__main__":
    for name in PAGES:
        path = ROOT / "docs" / name
        path.write_text(renewed(name, path.read_text(encoding="utf-8")), encoding="utf-8")
