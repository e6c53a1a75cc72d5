"""Turns `-c` overrides of Codex into ours, for programs that stand in for Codex.

Codex ignores a key that it does not know. So is done here, with a warning; but a key that takes rights away is
followed or refused: who asked for less must not get more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.session.settings.config_file import read_override
from tertulia.session.settings.layers import merge
from tertulia.session.settings.values import is_file_setting

RENAMED: Mapping[str, str] = {
    "model_reasoning_effort": "reasoning_effort",
    "sandbox_mode": "sandbox",
    "sandbox_workspace_write.network_access": "network",
}
"""Keys of Codex that have another name here, and take the same values."""

NARROWING = frozenset(
    {
        "approvals_reviewer",
        "auto_review",
        "default_permissions",
        "history",
        "hooks",
        "permissions",
        "sandbox_workspace_write",
        "shell_environment_policy",
    }
)
"""Keys of Codex that may take rights away: they are followed or refused, never ignored."""


class CodexOverrides(msgspec.Struct, frozen=True):
    """Overrides of a client of Codex, in our words."""

    overrides: list[str]
    base_url: str | None = None
    """Where the provider `openai` is reached."""
    warnings: list[str] = []
    """A sentence for each key that was ignored."""


def translate_overrides(overrides: Iterable[str]) -> CodexOverrides:
    """Ours for those of a client of Codex. InvalidParams for one that takes away what cannot be taken away here."""
    ours: list[str] = []
    warnings: list[str] = []
    base_url: str | None = None
    permissions: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        first = key.split(".", 1)[0].strip()
        if key in RENAMED:
            ours.append(f"{RENAMED[key]}={value}")
        elif key == "web_search":
            ours.append(f"tools_web_search_request={'false' if 'disabled' in value else 'true'}")
        elif key == "openai_base_url":
            base_url = value.strip().strip('"')
        elif first in ("permissions", "default_permissions"):
            permissions = cast("dict[str, Any]", merge(permissions, read_override(override)))
        elif not equals or is_file_setting(first) or first in NARROWING:
            # What is wrong with it is said where settings are read.
            ours.append(override)
        elif not (first == "features" and value.strip() == "false"):
            warnings.append(f"{key[:80]} is a setting of Codex that is not known here, and was ignored")
    return CodexOverrides([*ours, *_profile_overrides(permissions)], base_url, warnings)


def _profile_overrides(tables: Mapping[str, Any]) -> list[str]:
    """The permission profile that `default_permissions` names: all may be read, and some directories written."""
    if not tables:
        return []
    name = tables.get("default_permissions")
    if name is None:
        # A profile that is only described holds for nothing.
        return []
    profiles: Any = tables.get("permissions")
    found: Any = cast("dict[str, Any]", profiles).get(str(name)) if isinstance(profiles, dict) else None
    profile = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    files: object = profile.get("filesystem")
    if not isinstance(files, dict) or set(profile) != {"filesystem"}:
        raise InvalidParamsError(
            f"default_permissions: the profile {str(name)[:40]!r} must be a table with `filesystem` alone; write "
            "sandbox, network, writable_roots and approval_policy instead"
        )
    rules = cast("dict[str, Any]", files).copy()
    if rules.pop(":root", None) != "read" or any(rule != "write" or path[:1] != "/" for path, rule in rules.items()):
        raise InvalidParamsError(
            f'permissions.{str(name)[:40]}.filesystem: only ":root" = "read" and absolute directories = "write" are '
            "known here; write sandbox and writable_roots instead"
        )
    if not rules:
        return ['sandbox="read-only"']
    return ['sandbox="workspace-write"', f"writable_roots={json.dumps(list(rules))}"]
