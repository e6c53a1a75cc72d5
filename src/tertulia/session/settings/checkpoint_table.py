"""The setting `checkpoints`: whether the files of the workspace are recorded, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint


class CheckpointOptions(msgspec.Struct, frozen=True):
    """What the table says, parsed."""

    enabled: bool = True
    ignored: bool = False
    """Whether files are recorded, too, that git ignores."""
    in_memory: bool = False
    """Whether there are checkpoints where nothing may be stored: in memory, until the session is closed."""


def checkpoints_from_wire(value: object) -> CheckpointOptions:
    """Parse true, false or the table `[checkpoints]`. InvalidParams names what cannot be used."""
    if isinstance(value, CheckpointOptions):
        return value
    if isinstance(value, bool):
        return CheckpointOptions(enabled=value)
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"checkpoints must be true, false or a table, not {value!r:.80}")
    table = cast("Mapping[str, object]", value)
    for name, switch in table.items():
        if name not in CheckpointOptions.__struct_fields__:
            known = CheckpointOptions.__struct_fields__
            raise InvalidParamsError(f"checkpoints: there is no setting {name!r:.64}; {name_hint(name, known)}")
        if not isinstance(switch, bool):
            raise InvalidParamsError(f"checkpoints.{name} must be true or false, not {switch!r:.80}")
    return CheckpointOptions(**cast("Mapping[str, bool]", table))


def why_no_checkpoints(options: CheckpointOptions, variables: Mapping[str, str]) -> str | None:
    """Why there are no checkpoints here, and how to have them; None where there are. The storage policy may allow none
    all the same.
    """
    if not options.enabled:
        return "checkpoints are switched off: set checkpoints = true in config.toml, or Settings(checkpoints=True)"
    # With all kinds of archives, which nothing else needs at the start.
    import shutil

    folders = [folder for folder in variables.get("PATH", os.defpath).split(":") if folder.startswith("/")]
    if shutil.which("git", path=":".join(folders)) is None:
        return "checkpoints need git, and there is none on the PATH: install git"
    return None
