"""What a file of another program means here: settings, tables, and notes on what is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.server_table import server_from_wire
from tertulia.models.catalog import provider_from_wire
from tertulia.session.settings.agent_table import agent_from_wire
from tertulia.session.settings.values import parse_setting


class Entry(NamedTuple):
    """One line or one table of config.toml."""

    family: str
    """`mcp_servers`, `model_providers`, `agents`; empty for a setting that is no table of tables."""
    name: str
    value: Any
    source: str

    def title(self) -> str:
        """As it is written there."""
        return f"[{self.family}.{self.name}]" if self.family else self.name


class LeftOutEntry(NamedTuple):
    """What is not taken over, and why."""

    source: str
    subject: str
    reason: str


def _check_setting(name: str, value: Any) -> None:
    if name == "writable_roots" and isinstance(value, list):
        # A file may also name the working directory, which the parser gets as a path.
        value = [root for root in cast("list[object]", value) if root != "."]
    parse_setting(name, value)


_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    "": _check_setting,
    "mcp_servers": lambda name, table: server_from_wire(name, table, origin="user"),
    "model_providers": provider_from_wire,
    "agents": agent_from_wire,
}


class Findings:
    """All that was found, in the order in which it was read. Of two entries of one name the first counts."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.entries: list[Entry] = []
        self.left_out: list[LeftOutEntry] = []

    def add(self, family: str, name: str, value: Any, source: str) -> None:
        """Take an entry over if it is a valid one here; otherwise it is left out with the reason."""
        entry = Entry(family, name, value, source)
        if any((family, name) == (other.family, other.name) for other in self.entries):
            self.leave_out(source, entry.title(), "another file has it too; the one above counts")
            return
        try:
            _CHECKS[family](name, value)
        except InvalidParamsError as error:
            self.leave_out(source, entry.title(), error.message)
        else:
            self.entries.append(entry)

    def leave_out(self, source: str, subject: str, reason: str) -> None:
        """Note something that is not taken over."""
        self.left_out.append(LeftOutEntry(source, subject, reason))
