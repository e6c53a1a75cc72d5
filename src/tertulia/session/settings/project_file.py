"""A project's own settings, `.tertulia/config.toml`: they come with the project, so they may only narrow."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import asdict

from tertulia.errors import InvalidParamsError
from tertulia.policy.rights import Narrowing, Rights, narrow, parse_right, to_wire
from tertulia.protocol.conversation_fields import FIELDS_BY_NAME, RIGHT_FIELDS
from tertulia.sandbox.mounts.stubs import is_stub
from tertulia.session.settings.values import check_names, parse_limits, parse_setting

if TYPE_CHECKING:
    from tertulia.mcp.config.project_server import ProjectServer
    from tertulia.session.hooks.project_hook import ProjectHook


class ProjectFile(msgspec.Struct, frozen=True):
    """What a project's file changes."""

    changes: dict[str, Any]
    """Settings, each stricter than it was."""
    warnings: list[str]
    """What was refused of it, with file and key."""
    servers: list[ProjectServer]
    """MCP servers that it defines. None of them is started before the user trusts it."""
    hooks: list[ProjectHook]
    """Hooks that it defines. None of them is asked before the user trusts it."""


def read_project_servers(folder: Path) -> list[ProjectServer]:
    """What the project's `.mcp.json` in that folder defines."""
    # Imported where they are used: few programs read a project's files.
    from tertulia.mcp.config.project_server import FILE_NAME, ProjectServer, read_dot_mcp

    path = folder / FILE_NAME
    if not os.path.lexists(path):
        return []
    return [
        ProjectServer(name=name, entry=entry, source=str(path), folder=str(folder), form="json")
        for name, entry in read_dot_mcp(path).items()
    ]


def find_project_files(cwd: Path, user_home: Path) -> list[Path]:
    """Where such files may lie: from the repository's root down to `cwd`, or `cwd` alone outside a repository.

    The user's home is never a project, nor is anything above it.
    """
    user_home = user_home.resolve()
    folders: list[Path] = []
    for folder in (cwd, *cwd.parents):
        if folder == user_home:
            break
        folders.append(folder)
        if (folder / ".git").exists() and not is_stub(folder / ".git"):
            break
    else:
        # Not in a repository and not at home: what lies above may belong to another user, as /tmp does.
        folders = [cwd]
    return [folder / ".tertulia" / "config.toml" for folder in reversed(folders)]


def apply_project_file(path: Path, config: Mapping[str, Any], ceiling: Rights) -> ProjectFile:
    """Narrow what is allowed by what the file says."""
    requested: dict[str, Any] = {}
    warnings: list[str] = []
    check_names(config, str(path))
    for name, value in config.items():
        try:
            right = _right_of_setting(name, value, ceiling)
        except InvalidParamsError as error:
            raise InvalidParamsError(f"{path}: {error.message}") from None
        requested |= right
        if not right and name not in ("mcp_servers", "hooks"):
            warnings.append(f"{path}: {name} is ignored, a project's file may only narrow")
    from tertulia.mcp.config.project_server import ProjectServer

    folder = str(path.parent.parent)
    servers = [
        ProjectServer(name=name, entry=entry, source=str(path), folder=folder, form="toml")
        for name, entry in config.get("mcp_servers", {}).items()
    ]
    for root in [root for root in requested.get("writable_roots") or () if _is_protected(root, ceiling)]:
        requested["writable_roots"] = [other for other in requested["writable_roots"] if other != root]
        warnings.append(f"{path}: writable_roots: {root} is ignored, it lies in a protected directory")
    granted, refused = narrow(requested, ceiling, ceiling, "session")
    warnings.extend(_refusal(path, entry) for entry in refused)
    before, after = asdict(ceiling), asdict(granted)
    # A sandbox mode is kept even where it changes nothing: it bounds what the user of an editor may choose.
    same = [name for name in requested if name == "sandbox" and requested[name] == before[name]]
    changes = {name: after[name] for name in requested if after[name] != before[name] or name in same}
    return ProjectFile(_as_settings(changes, before), warnings, servers, _hooks_of(path, config.get("hooks", {})))


def _hooks_of(path: Path, tables: Mapping[str, Any]) -> list[ProjectHook]:
    if not tables:
        return []
    # Imported here: few projects have one.
    from tertulia.session.hooks.project_hook import ProjectHook

    folder = str(path.parent.parent)
    return [ProjectHook(name=name, entry=entry, source=str(path), folder=folder) for name, entry in tables.items()]


def _right_of_setting(name: str, value: object, ceiling: Rights) -> dict[str, Any]:
    """The right that a setting limits, if any."""
    parsed, row = parse_setting(name, value), FIELDS_BY_NAME.get(name)
    if row is None or not row.narrows:
        return {}
    if name == "limits":
        return {name: parse_limits(value, ceiling.limits)}
    right = parse_right(row.right, parsed)
    # Of a form that is a preference only the word that takes it away narrows.
    return {} if row.is_preference and right else {row.right: right}


def _is_protected(root: str, ceiling: Rights) -> bool:
    """Whether the root is a protected directory: inside a root that is `.git` itself nothing would be protected."""
    # Here and not above: it brings ctypes along, and most projects have no file.
    from tertulia.sandbox.mounts.nested_protected import protected_part

    inside = [os.path.relpath(root, above) for above in ceiling.writable_roots or ()]
    inside = [path for path in inside if path.split("/")[0] != ".."]
    return bool(inside) and all(protected_part(path) is not None for path in inside)


def _refusal(path: Path, entry: Narrowing) -> str:
    return f"{path}: {entry.field} = {entry.asked!r} is more than allowed, {entry.given!r} is used"


def _as_settings(changes: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    rows = {right: RIGHT_FIELDS[right] for right in changes}
    settings = {
        row.name: to_wire(right, changes[right]) if row.is_preference else changes[right] for right, row in rows.items()
    }
    if "limits" in changes:
        old, new = asdict(before["limits"]), asdict(changes["limits"])
        settings["limits"] = {name: value for name, value in new.items() if value != old[name]}
    return settings


class ProjectMasks(msgspec.Struct, frozen=True):
    """What becomes of the setting `masks`."""

    masks: dict[str, Any]
    """The user's own, and what the project adds."""
    warnings: list[str]
    """What was refused of it, with file and key."""


def merge_project_masks(path: Path, written: object, users: Mapping[str, Any]) -> ProjectMasks:
    """Add a project's masks to the user's. `path` is its file; relative paths count from the project.

    A path outside of the project is ignored: the file of a project could hide from commands what they need to run.
    """
    from tertulia.sandbox.masks.guarded_paths import is_inside

    folder = str(path.parent.parent)
    try:
        masks = parse_setting("masks", _anchor_masks(written, folder))
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{path}: {error.message}") from None
    inside = [name for name in masks.get("add", ()) if is_inside(os.path.normpath(name), f"{folder}/")]
    outside = [name for name in masks.get("add", ()) if name not in inside]
    warnings = [f"{path}: masks.add: {name} is ignored, it lies outside of the project" for name in outside]
    if masks.get("unmask"):
        warnings.append(f"{path}: masks.unmask is ignored, a project's file may only add masks")
    return ProjectMasks({**users, "add": [*users.get("add", ()), *inside]}, warnings)


def _anchor_masks(written: object, folder: str) -> object:
    if not isinstance(written, dict):
        return written
    table = cast("dict[str, Any]", written)
    added = table.get("add")
    if not isinstance(added, list):
        return table
    paths = cast("list[Any]", added)
    return {**table, "add": [_absolute(name, folder) for name in paths]}


def _absolute(name: Any, folder: str) -> Any:
    return os.path.join(folder, name) if isinstance(name, str) and not name.startswith("~/") else name
