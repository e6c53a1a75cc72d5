"""Writes entries into config.toml: all of them or none. What the file has already stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertulia.cli.imports.entries import Entry
from tertulia.cli.mcp.config_edit import read_text, with_table, write_checked


def split_by_presence(path: Path, entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Which entries the file does not have yet, and which it has."""
    _, config = read_text(path)
    missing = [entry for entry in entries if not _has(config, entry)]
    return missing, [entry for entry in entries if entry not in missing]


def write_entries(path: Path, entries: Sequence[Entry]) -> None:
    """Add entries that the file does not have. StorageError or InvalidParams where nothing could be written."""
    text, expected = read_text(path)
    settings = [entry for entry in entries if not entry.family]
    text = _with_settings(text, settings)
    expected |= {entry.name: entry.value for entry in settings}
    for entry in entries:
        if entry.family:
            text = with_table(text, entry.family, entry.name, entry.value)
            expected[entry.family] = {**expected.get(entry.family, {}), entry.name: entry.value}
    write_checked(path, text, expected, entries[0].family or entries[0].name)


def _with_settings(text: str, settings: Sequence[Entry]) -> str:
    """The text with these before its first table."""
    import tomlkit

    document = tomlkit.parse(text)
    for entry in settings:
        document.add(entry.name, entry.value)
    return document.as_string()


def _has(config: dict[str, Any], entry: Entry) -> bool:
    return entry.name in (config.get(entry.family, {}) if entry.family else config)
