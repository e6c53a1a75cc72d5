"""The masks of a project's file: it may hide more of its own folder from commands, and show nothing."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.session.setting_values import parse


class ProjectMasks(msgspec.Struct, frozen=True):
    """What becomes of the setting `masks`."""

    masks: dict[str, Any]
    """The user's own, and what the project adds."""
    warnings: list[str]
    """What it asked for in vain, with file and key."""


def project_masks(path: Path, written: object, users: Mapping[str, Any]) -> ProjectMasks:
    """Lay a project's masks over the user's. `path` is its file; relative paths count from the project.

    A path outside of the project is ignored: a stranger's file could hide from commands what they need to run.
    """
    folder = str(path.parent.parent)
    try:
        asked = parse("masks", _anchored(written, folder))
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{path}: {error.message}") from None
    inside = [name for name in asked.get("add", ()) if is_inside(os.path.normpath(name), f"{folder}/")]
    outside = [name for name in asked.get("add", ()) if name not in inside]
    warnings = [f"{path}: masks.add: {name} is ignored, it lies outside of the project" for name in outside]
    if asked.get("unmask"):
        warnings.append(f"{path}: masks.unmask is ignored, a project's file may only add masks")
    return ProjectMasks({**users, "add": [*users.get("add", ()), *inside]}, warnings)


def _anchored(written: object, folder: str) -> object:
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
