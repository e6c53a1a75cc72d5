"""Codex's config.toml: models, providers, MCP servers, approvals, sandbox. Its names are turned into ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tertulia.cli.imports.entries import Findings
from tertulia.session.settings.codex_settings import CODEX_NOTES
from tertulia.session.settings.config_file import read_config
from tertulia.session.settings.values import is_file_setting

_OURS = {
    "approval_policy": "approval_policy",
    "model_reasoning_effort": "reasoning_effort",
    "notify": "notify",
    "sandbox_mode": "sandbox",
}
"""Settings that mean the same here, by their name there."""
_TABLES = ("model_providers", "mcp_servers")
_OTHER_MEANING = "a setting of that name means something else here: see docs/configuration.md"
_UNKNOWN = "it is not known here"
_PROVIDER_KEYS = {"wire_api": "wire"}
_PROVIDER_SILENT = frozenset({"name", "env_key_instructions", "supports_websockets"})
"""Keys of a provider that change nothing here."""


def read_codex(path: Path, found: Findings, *, project: bool) -> None:
    """What is in that file, if it is there; of one of a project only its servers."""
    config = read_config(path)
    if config is None:
        return
    source = str(path)
    found.files.append(source)
    if project:
        for name in [name for name in config if name != "mcp_servers"]:
            del config[name]
            found.leave_out(source, name, "of a project's file only MCP servers are taken over")
    _take_model(config, found, source)
    for family in _TABLES:
        for name, table in _tables(config.pop(family, None)).items():
            value = _provider(name, table, found, source) if family == "model_providers" else table
            found.add(family, name, value, source)
    _take_sandbox(config.pop("sandbox_workspace_write", None), found, source)
    for name, value in config.items():
        if name == "web_search":
            found.add("", "tools_web_search_request", value != "disabled", source)
        elif name in _OURS:
            found.add("", _OURS[name], value, source)
        else:
            found.leave_out(source, name, CODEX_NOTES.get(name, _OTHER_MEANING if is_file_setting(name) else _UNKNOWN))


def _take_model(config: dict[str, Any], found: Findings, source: str) -> None:
    """Model and provider are one setting here."""
    provider, model = config.pop("model_provider", "openai"), config.pop("model", None)
    if isinstance(model, str) and isinstance(provider, str):
        found.add("", "model", f"{provider}/{model}", source)
    elif provider != "openai":
        found.leave_out(source, "model_provider", 'no model stands beside it; write model = "PROVIDER/MODEL"')


def _provider(name: str, table: Any, found: Findings, source: str) -> Any:
    if not isinstance(table, dict):
        return table
    fields = {_PROVIDER_KEYS.get(key, key): value for key, value in cast("dict[str, Any]", table).items()}
    fields.setdefault("wire", "responses")
    for key in _PROVIDER_SILENT & set(fields):
        del fields[key]
    if "experimental_bearer_token" in fields:
        del fields["experimental_bearer_token"]
        reason = f"a key stays out of files: `tertulia login {name}` keeps it, or put it into a variable for env_key"
        found.leave_out(source, f"[model_providers.{name}] experimental_bearer_token", reason)
    return fields


def _take_sandbox(table: Any, found: Findings, source: str) -> None:
    for key, value in _tables(table).items():
        if key == "network_access":
            found.add("", "network", value, source)
        elif key == "writable_roots":
            # Codex adds them to the working directory; here they stand in place of it.
            found.add("", "writable_roots", [".", *value] if isinstance(value, list) else value, source)
        else:
            reason = "commands have a temporary folder of their own, and no other"
            known = key in ("exclude_tmpdir_env_var", "exclude_slash_tmp")
            found.leave_out(source, f"sandbox_workspace_write.{key}", reason if known else _UNKNOWN)


def _tables(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
