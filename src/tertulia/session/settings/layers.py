"""Settings laid over one another, later ones over earlier ones, each remembering where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, cast

from tertulia.errors import InvalidParamsError
from tertulia.policy.limits import Limits
from tertulia.session.settings.config_file import read_override
from tertulia.session.settings.values import parse_setting

DEFAULT = "default"

_MERGED = frozenset(
    {
        "model_prices",
        "model_providers",
        "mcp_servers",
        "mcp_views",
        "limits",
        "masks",
        "shell_environment",
        "retention",
        "executors",
        "acp",
        "agents",
        "telemetry",
        "tui",
    }
)
"""Tables of which a layer may give a part. Every other setting is replaced whole."""


class SettingLayers:
    """The sum of all layers so far. A refused layer leaves nothing of the setting that was wrong."""

    __slots__ = ("sources", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """By name, in the spelling in which they came."""
        self.sources: dict[str, str] = {}
        """By name, and for each entry of a table: the file, variable or flag that gave it."""

    def add(self, name: str, value: object, source: str) -> None:
        """Lay one setting on top; a refusal names the source."""
        merged = merge(self.values.get(name), value) if name in _MERGED else value
        try:
            parse_setting(name, merged)
        except InvalidParamsError as error:
            raise InvalidParamsError(f"{source}: {error.message}") from None
        self.values[name] = merged
        self.sources.update(dict.fromkeys(_leaves(name, value) if name in _MERGED else [name], source))

    def let_agent_have(self, name: str, sources: tuple[str, ...]) -> None:
        """Let a setting from one of these sources win over that of the root's agent."""
        agent, source = self.values.get("agent"), self.sources.get(name)
        if agent in self.values.get("agents", {}) and source in sources:
            self.add("agents", {agent: {name: self.values[name]}}, str(source))

    def clear(self, name: str, source: str) -> None:
        """Take away all that the layers below say of a setting."""
        self.values.pop(name, None)
        self.sources = {key: place for key, place in self.sources.items() if key.partition(".")[0] != name}
        self.sources[name] = source

    def provenance(self, names: tuple[str, ...]) -> dict[str, str]:
        """Where each setting, and each entry of a table, comes from. Never what it is."""
        sources = dict.fromkeys((f"limits.{name}" for name in Limits.__struct_fields__), DEFAULT) | self.sources
        tables = {name.partition(".")[0] for name in sources}
        return dict(sorted((dict.fromkeys(set(names) - tables, DEFAULT) | sources).items()))


def merge(below: object, above: object) -> object:
    """One table over another, entry by entry; whatever is no table is replaced. Neither is changed."""
    if not isinstance(below, dict) or not isinstance(above, Mapping):
        return above
    merged = cast("dict[str, Any]", below).copy()
    for key, value in cast("Mapping[str, Any]", above).items():
        merged[key] = merge(merged.get(key), value)
    return merged


def _leaves(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, Mapping) or not value:
        yield name
        return
    for key, entry in cast("Mapping[str, Any]", value).items():
        yield from _leaves(f"{name}.{key}", entry)


def merge_overrides(overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Each by itself, but parts of MCP servers together: a server is checked when all its keys are known."""
    read = list(map(read_override, overrides))
    parts = [override.pop("mcp_servers") for override in read if "mcp_servers" in override]
    if {} in parts:
        # An empty table replaces what came before it.
        start = len(parts) - parts[::-1].index({})
        parts = parts[start:]
        read.append({"mcp_servers": {}})
    return [*read, {"mcp_servers": reduce(merge, parts)}] if parts else read
