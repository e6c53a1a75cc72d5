"""The places that settings are read from, and the layers that they make, later ones over earlier ones.

In their order: the user's file, files of the project, variables, `-c`, flags. Each value remembers where it came from.
Nothing here knows what the settings are: `settings.py` makes them of the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.project_server import ProjectServer
from tertulia.policy.limits import Limits
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import Switch
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy, storage_from_wire, strictest
from tertulia.session.settings.config_file import anchor, anchor_entries, read_config, read_override
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.project_file import (
    apply_project_file,
    find_project_files,
    merge_project_masks,
    read_project_servers,
)
from tertulia.session.settings.values import check_names, parse_setting

if TYPE_CHECKING:
    from tertulia.session.hooks.project_hook import ProjectHook

_FLAGS = {
    "approval_policy": "--ask-for-approval",
    "cwd": "--cd",
    "storage_policy": "--storage",
    "writable_roots": "--add-dir",
}
"""Flags that are not called after their setting."""

DEFAULT = "default"
OLD_STORAGE_SWITCH = "disable_response_storage"
Table = Mapping[str, Any]

_MERGED = frozenset(
    {
        "budget",
        "proxy",
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
        "hooks",
        "telemetry",
        "tui",
    }
)
"""Tables of which a layer may give a part. Every other setting is replaced whole."""
_OF_PROJECTS = {"mcp_servers": "project_servers", "hooks": "project_hooks"}
"""The settings that have what a project's files add to these."""


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


class SettingPlaces:
    """Reads every place once; what was refused of a project's file is in `warnings`."""

    def __init__(self, cwd: Path, environment: Environment, *, ceiling: Callable[[Table], Rights]) -> None:
        """`ceiling` gives the rights that settings with these values allow: a project's file stays below them."""
        self._cwd = cwd
        self._environment = environment
        self._ceiling = ceiling
        self._layers = SettingLayers()
        self.warnings: list[str] = []

    def read(self, flags: Table, overrides: Sequence[str]) -> SettingLayers:
        """The layers of all places. Flags go by the names of settings; one that is None was not given."""
        layers, environment = self._layers, self._environment
        self._add_file(read_config(environment.config_file) or {}, str(environment.config_file))
        servers, hooks = self._add_projects()
        if servers:
            layers.add("project_servers", servers, ", ".join(dict.fromkeys(server.source for server in servers)))
        if hooks:
            layers.add("project_hooks", hooks, ", ".join(dict.fromkeys(hook.source for hook in hooks)))
        self._add_variables()
        for override in merge_overrides(overrides):
            self._add_file(override, "-c")
        self._add_flags(flags)
        layers.let_agent_have("model", ("-c", "flag --model"))
        return layers

    def _add_variables(self) -> None:
        layers, variables = self._layers, self._environment.variables
        if model := variables.get("TERTULIA_MODEL"):
            layers.add("model", model, "environment TERTULIA_MODEL")
        if self._environment.names_network:
            self._add_network_variables()
        self._add_history_variables()

    def _add_network_variables(self) -> None:
        # Imported here: few users have set one.
        from tertulia.protocol.network.access import proxy_table

        layers, variables = self._layers, self._environment.variables
        for variable, entry, value in proxy_table(variables):
            layers.add("proxy", {entry: value}, f"environment {variable}")
        if ca_file := variables.get("SSL_CERT_FILE"):
            layers.add("ca_file", str(self._cwd / ca_file), "environment SSL_CERT_FILE")
        if ca_dir := variables.get("SSL_CERT_DIR"):
            layers.add("ca_dir", ca_dir, "environment SSL_CERT_DIR")

    def _add_history_variables(self) -> None:
        variables = self._environment.variables
        if not any(name.startswith("EXECUTOR_HISTORY_") for name in variables):
            return
        # Imported here: few users have set one.
        from tertulia.executors.prompt.history_prompt import read_history_variables

        for name, table in read_history_variables(variables).items():
            self._layers.add("executors", {"history": table}, f"environment {name}")

    def _add_file(self, config: Table, source: str) -> None:
        layers, environment = self._layers, self._environment
        below = storage_from_wire(layers.values.get("storage_policy", Full()))
        config = rename_old_settings(config, below, source)
        check_names(config, source)
        folder = self._cwd if source == "-c" else environment.config_file.parent
        for name, value in config.items():
            if source == "-c" and value == {}:
                # Merging an empty table would change nothing: it is meant to replace the whole one.
                layers.clear(name, source)
                if name in _OF_PROJECTS:
                    layers.clear(_OF_PROJECTS[name], source)
            if name == "writable_roots":
                value = anchor(value, self._cwd, environment.user_home)
            elif name == "ca_file":
                (value,) = anchor([value], folder, environment.user_home)
            elif name == "model_providers":
                value = anchor_entries(value, "ca_file", folder, environment.user_home)
            elif name == "agents":
                value = anchor_entries(value, "instructions_file", folder, environment.user_home)
            elif name == "mcp_servers":
                value = anchor_entries(value, "cwd", folder)
            layers.add(name, value, source)

    def _add_flags(self, flags: Table) -> None:
        layers = self._layers
        for name, value in flags.items():
            if value is None:
                continue
            if name == "writable_roots":
                # The flag adds directories; the workspace stays writable.
                roots = anchor(list(value), self._cwd, self._environment.user_home)
                value = [*layers.values.get(name, [str(self._cwd)]), *roots]
            layers.add(name, value, f"flag {_FLAGS.get(name, '--' + name.replace('_', '-'))}")

    def _add_projects(self) -> tuple[list[ProjectServer], list[ProjectHook]]:
        layers, user_home = self._layers, self._environment.user_home
        servers: list[ProjectServer] = []
        hooks: list[ProjectHook] = []
        for path in find_project_files(self._cwd, user_home):
            servers.extend(read_project_servers(path.parent.parent))
            config = read_config(path)
            if config is None:
                continue
            if "writable_roots" in config:
                config["writable_roots"] = anchor(config["writable_roots"], path.parent.parent, user_home)
            if "masks" in config:
                added = merge_project_masks(path, config.pop("masks"), layers.values.get("masks", {}))
                layers.add("masks", added.masks, str(path))
                self.warnings.extend(added.warnings)
            ceiling = self._ceiling(layers.values)
            if ceiling.writable_roots is None:
                # Unless the user said so, no root above the workspace: "/" must not count as narrower than unsaid.
                ceiling = replace(ceiling, writable_roots=(str(self._cwd),))
            config = rename_old_settings(config, ceiling.storage_policy, str(path))
            project = apply_project_file(path, config, ceiling)
            for name, value in project.changes.items():
                layers.add(name, value, str(path))
            self.warnings.extend(project.warnings)
            servers.extend(project.servers)
            hooks.extend(project.hooks)
        return servers, hooks


def rename_old_settings(config: Mapping[str, Any], storage: StoragePolicy, source: str) -> dict[str, Any]:
    """The settings of a file in which `disable_response_storage`, an old switch, is replaced by a storage policy.

    True is headers_only, and never more than the file itself or what lies below it (`storage`) allows; False asks for
    nothing.
    """
    current = dict(config)
    disabled = current.pop(OLD_STORAGE_SWITCH, False)
    try:
        if Switch().parse(OLD_STORAGE_SWITCH, disabled):
            policy = storage_from_wire(current.get("storage_policy", storage))
            current["storage_policy"] = strictest(policy, HeadersOnly())
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{source}: {error.message}") from None
    return current


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
    """Each by itself, but parts of MCP servers and of model providers together: a table is checked when it is whole."""
    read = list(map(read_override, overrides))
    for name in ("mcp_servers", "model_providers"):
        parts = [override.pop(name) for override in read if name in override]
        if {} in parts:
            # An empty table replaces what came before it.
            start = len(parts) - parts[::-1].index({})
            parts = parts[start:]
            read.append({name: {}})
        if parts:
            read.append({name: reduce(merge, parts)})
    return read
