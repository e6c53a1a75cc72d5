"""The pages in the place of the transcript: the palette, help with all keys, and lists that commands show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.widget import Widget

from tertulia.terminal.approvals.acts import KEYS_HELP
from tertulia.terminal.commands.command_list import COMMANDS
from tertulia.terminal.composer.editor import KEYS_HELP as COMPOSER_HELP
from tertulia.terminal.looks.keys import bindings, bindings_of, show_keys
from tertulia.terminal.panels.page import Page, PageContent, PageRow
from tertulia.terminal.panels.side import SidePanel
from tertulia.terminal.panels.tree import ConversationTree
from tertulia.terminal.transcript.transcript import Transcript
from tertulia.view.board_state import BoardState
from tertulia.view.text import STATE_MARKS, STATE_WORDS, budget_text, name_of

KEYED: tuple[type[Widget], ...] = (Transcript, ConversationTree, SidePanel, Page)
"""The widgets whose keys are shown and can be changed."""
_PARTS = {"transcript": "Transcript", "tree": "Conversations", "side": "Side panel", "page": "Pages"}


def palette_page(board: BoardState, *, only_conversations: bool = False) -> PageContent:
    """All conversations and all commands, filtered by what is typed."""
    views = [view for view in board.tree() if not view.closed]
    rows = [
        PageRow(
            f"{STATE_MARKS[view.state]} {'  ' * view.depth}{name_of(view, board.root_id)}",
            STATE_WORDS[view.state] + (f", {view.unread} new" if view.unread else ""),
            f"go {view.id}",
        )
        for view in views
    ]
    if not only_conversations:
        commands = [PageRow(f"/{command.name} {command.takes}", command.help, command.name) for command in COMMANDS]
        rows = [*commands, *rows]
    title = "Conversations" if only_conversations else "Find"
    return PageContent(kind="palette", title=title, rows=tuple(rows), filtered=True, column=22)


def help_page() -> PageContent:
    """All commands and the global keys."""
    rows = [PageRow("Keys that hold everywhere", style="bold")]
    rows += [PageRow(show_keys(binding.key), binding.description) for binding in bindings()]
    for title, keys_help in (("Message", COMPOSER_HELP), ("Questions", KEYS_HELP)):
        rows += [PageRow(""), PageRow(title, style="bold"), *(PageRow(keys, text) for keys, text in keys_help)]
    part = ""
    for name, binding in bindings_of(KEYED):
        if name != part:
            part = name
            rows += [PageRow(""), PageRow(_PARTS.get(name, name.capitalize()), style="bold")]
        rows.append(PageRow(show_keys(binding.key), binding.description))
    rows += [PageRow(""), PageRow("Commands", style="bold")]
    rows += [PageRow(f"/{command.name} {command.takes}", command.help) for command in COMMANDS]
    return PageContent(kind="help", title="Help", rows=tuple(rows), column=22)


def keys_page() -> PageContent:
    """All keys with the names by which `[tui.keys]` changes them."""
    rows = [PageRow('Change a key in config.toml, below [tui.keys]: NAME = "KEYS"'), PageRow("")]
    all_bindings = [*bindings(), *(binding for _, binding in bindings_of(KEYED))]
    rows += [PageRow(show_keys(binding.key), f"{binding.description} ({binding.id})") for binding in all_bindings]
    return PageContent(kind="keys", title="Keys", rows=tuple(rows), column=22)


def text_page(kind: str, title: str, text: str) -> PageContent:
    """A text, line by line."""
    return PageContent(kind=kind, title=title, rows=tuple(PageRow(line) for line in text.split("\n")))


def table_page(kind: str, title: str, rows: Iterable[tuple[str, object]]) -> PageContent:
    """A table of names with values."""
    return PageContent(kind=kind, title=title, rows=tuple(PageRow(name, str(value)) for name, value in rows), column=18)


def list_page(kind: str, title: str, rows: Sequence[tuple[str, str, str]]) -> PageContent:
    """Rows that can be chosen: a text, more text, and what it stands for."""
    made = tuple(PageRow(text, more, value) for text, more, value in rows)
    return PageContent(kind=kind, title=title, rows=made, column=24)


_NETWORK: dict[object, str] = {True: "on", "hosts": "hosts by name"}


def status_rows(
    info: dict[str, Any], board: BoardState, budget: Mapping[str, Any] | None = None
) -> list[tuple[str, object]]:
    """What `/status` shows of a session; `budget`: as `metrics/get` has it."""
    policy: dict[str, Any] = info["policy"]
    cached = f"{100 * board.cached_input_tokens // board.input_tokens} %" if board.input_tokens else "none"
    return [
        ("session", info["session_id"]),
        ("version", info["version"]),
        ("model", info["model"]),
        ("sandbox", f"{policy.get('sandbox')}, held by {info.get('sandbox_tier') or 'nothing'}"),
        ("approval", policy.get("approval")),
        ("network", _NETWORK.get(policy.get("network"), "off")),
        ("storage", policy.get("storage")),
        ("conversations", f"{sum(not view.closed for view in board.conversations.values())} open"),
        ("tokens", f"{board.input_tokens:,} in, {board.output_tokens:,} out"),
        ("cached", cached),
        *((("cost", f"${board.cost_usd:,.4f}"),) if board.cost_usd is not None else ()),
        *((("budget", budget_text(budget)),) if budget is not None else ()),
        *(("not held", sentence) for sentence in info.get("not_held", ())),
    ]
